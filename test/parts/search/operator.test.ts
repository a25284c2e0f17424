import { afterEach, describe, expect, test, vi } from "vitest";
import { SearchIndexer } from "../../../src/parts/search/indexer.ts";
import { SEARCH } from "../../../src/parts/search/store/module.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { configOf } from "../../config/config-folder.ts";
import { startLog } from "../../helpers/log.ts";
import { callJson, startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { acceptId } from "../../store/store-fixtures.ts";

const ENDPOINT = `service_id = 1
[[webhooks.endpoints]]
path = "/hooks/github"
name = "Builds of GitHub"
job_id = 70
auth = "none"
`;

const jobgate = startBeforeAll(async () =>
  startOperator({ token: TOKEN, configuration: await configOf(ENDPOINT) }),
);
const search = async (request: object) => {
  const { status, answer } = await callJson(jobgate.url, "Search", request, {
    authorization: `Bearer ${TOKEN}`,
  });
  return { status, ...(answer as { results: object[]; more: string[]; message: string; code: string }) };
};

afterEach(() => vi.unstubAllEnvs());

/** Fills the index, as the part does in the background. */
async function fill(): Promise<void> {
  const { store } = jobgate;
  const indexer = new SearchIndexer({ index: store.of(SEARCH), store, logger: startLog("error").logger });
  while (await indexer.step());
}

describe("Search", () => {
  test.each([
    ["", "it is empty"],
    [" \t ", "it is empty"],
    ["ab", "at least 3 characters, or the number of a call"],
    ["x".repeat(201), "at most 200 characters"],
  ])(
    "The text %j is refused as INVALID_ARGUMENT, and the answer says what is expected",
    async (text, reason) => {
      const { status, code, message } = await search({ text });
      expect([status, code]).toEqual([400, "invalid_argument"]);
      expect(message).toContain(reason);
    },
  );

  test("A field that the request does not have is refused with its name", async () => {
    const { status, message } = await search({ txt: "abc" });
    expect(status).toBe(400);
    expect(message).toContain("txt");
  });

  test("A webhook endpoint is found by any part of its name and of its path", async () => {
    const job = { kind: "SEARCH_KIND_JOB", value: "Builds of GitHub", origin: "webhook", job_id: "70" };
    for (const text of ["of git", "s/github"]) expect((await search({ text })).results).toMatchObject([job]);
  });

  test("A dead letter is found by its number, its metadata, and any part of its reason", async () => {
    const callId = await jobgate.deadLetter("hello", "The printer has no ink");
    const dead = { call_id: String(callId), origin: "webhook", job_id: "70", state: "CALL_STATE_DEAD" };
    const byNumber = await search({ text: `#${callId}` });
    expect(byNumber.results[0]).toMatchObject({ ...dead, kind: "SEARCH_KIND_CALL", value: String(callId) });
    expect((await search({ text: "NO INK" })).results).toMatchObject([
      { kind: "SEARCH_KIND_DEAD_LETTERS", value: "The printer has no ink", job_id: "70", count: "1" },
    ]);
  });

  test("A number finds its call, and not the dead letters whose reason has a number", async () => {
    const callId = await jobgate.deadLetter("hello", "no answer in 12 s");
    for (const text of [String(callId), `#${callId}`]) {
      const { results } = await search({ text });
      expect(results[0]).toMatchObject({ kind: "SEARCH_KIND_CALL", value: String(callId) });
      expect(results).not.toContainEqual(expect.objectContaining({ kind: "SEARCH_KIND_DEAD_LETTERS" }));
    }
    expect((await search({ text: "answer in 12" })).results).toMatchObject([
      { kind: "SEARCH_KIND_DEAD_LETTERS", value: "no answer in # s" },
    ]);
  });

  test("At most 20 of a kind are returned, and the answer names the kinds that have more", async () => {
    for (let number = 0; number < 21; number++)
      await acceptId(jobgate.store, {
        requestMetadata: [["X-HTTP-X-ORDER", `Many-${number}`]],
        body: Buffer.from("many"),
      });
    await fill();
    const { results, more } = await search({ text: "many-" });
    expect(results).toHaveLength(20);
    expect(results[0]).toMatchObject({
      kind: "SEARCH_KIND_METADATA",
      name: "X-HTTP-X-ORDER",
      value: "Many-0",
    });
    expect(more).toEqual(["SEARCH_KIND_METADATA"]);
    expect(await search({ text: "many-20" })).toMatchObject({ results: [{ value: "Many-20" }], more: [] });
  });
});

describe("jobgate find", () => {
  const find = (...args: string[]) => {
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
    return runHere("find", ...args, "--target", jobgate.operator.address);
  };

  test("A table shows what was found, and --json prints the results as the API returns them", async () => {
    const callId = await jobgate.deadLetter("hello", "out of paper");
    const { code, stdout } = await find("out of paper");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^KIND +CALL +JOB +STATE +TIME +FOUND\ndead letters +1\/70 Builds of GitHub +1 +out of paper\n$/,
    );
    const json = await find(String(callId), "--json");
    expect(JSON.parse(json.stdout.split("\n")[0] ?? "")).toMatchObject({
      kind: "SEARCH_KIND_CALL",
      call_id: String(callId),
    });
  });

  test("A text that is too short is refused with what is expected", async () => {
    const { code, stderr } = await find("ab");
    expect(code).toBe(2);
    expect(stderr).toContain("expected at least 3 characters");
  });
});
