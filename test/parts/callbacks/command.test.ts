import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { callbackOperation } from "../../../src/parts/callbacks/operator.ts";
import type { Callback } from "../../../src/parts/callbacks/store/ledger.ts";
import { CALLBACKS } from "../../../src/parts/callbacks/store/module.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const OPS = "https://ops.example.com/hook";
const SLOW = "https://slow.example.com/hook";
const poked = vi.fn();
const sender = {
  urls: [`${OPS}?key=secret`, SLOW],
  poke: poked,
  test: async (url: string) => (url === SLOW ? "no whole answer within 10 s" : undefined),
};
const jobgate = startBeforeAll(() =>
  startOperator({
    token: TOKEN,
    additions: (store) => [
      { loadApi: async () => callbackOperation({ ledger: store.of(CALLBACKS), sender }) },
    ],
  }),
);

const runAny = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere(...args, "--target", jobgate.operator.address);
};
const run = (...args: string[]) => runAny("callbacks", ...args);
const rowsOf = (stdout: string) =>
  stdout
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((row) => row.split(/ {2,}/));

let [callback, callId] = [undefined as unknown as Callback, 0];
beforeEach(async () => {
  const { store } = jobgate;
  await store.of(CALLBACKS).useCallbackEndpoints([{ url: `${OPS}?key=secret`, events: ["dead_letter"] }]);
  callId = await jobgate.deadLetter();
  callback = (await store.of(CALLBACKS).listCallbacks({ limit: 1 }))[0] as Callback;
});
afterEach(() => vi.unstubAllEnvs());

describe("jobgate callbacks", () => {
  test("list prints a table, newest first, without the query of a URL", async () => {
    const reason = "HTTP 503";
    await jobgate.store.of(CALLBACKS).endCallback(callback.id, 0, { kind: "later", delayMs: 60_000, reason });
    const { code, stdout } = await run("list", "--limit", "1");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ID +STATE +EVENT +CALL +HAPPENED AT +TRIES +NEXT +URL +REASON\n/);
    expect(rowsOf(stdout)).toEqual([
      [
        String(callback.id),
        "pending",
        "dead_letter",
        String(callId),
        expect.stringMatching(/^20/),
        "1",
      ].concat([expect.stringMatching(/^20/) as unknown as string, OPS, reason]),
    ]);
    expect(stdout).not.toContain("secret");
  });

  test("jobs show has the callbacks of its call, with state, tries, next try and reason", async () => {
    const reason = "HTTP 503";
    await jobgate.store.of(CALLBACKS).endCallback(callback.id, 0, { kind: "later", delayMs: 60_000, reason });
    const { stdout } = await runAny("jobs", "show", String(callId));
    const [, shown = ""] = stdout.split(/(?=^ID +STATE +EVENT +HAPPENED AT +TRIES +NEXT +URL +REASON$)/m);
    const at = expect.stringMatching(/^20/) as unknown;
    expect(rowsOf(shown)).toEqual([
      [String(callback.id), "pending", "dead_letter", at, "1", at, OPS, reason],
    ]);
  });

  test("list selects by --state and --call, in pages, and prints lines of JSON", async () => {
    await jobgate.deadLetter();
    await jobgate.store.of(CALLBACKS).endCallback(callback.id, 0, { kind: "dead", reason: "HTTP 410" });
    const dead = await run("list", "--state", "dead", "--limit", "1", "--json");
    expect(JSON.parse(dead.stdout)).toMatchObject({
      id: String(callback.id),
      state: "CALLBACK_STATE_DEAD",
      url: OPS,
      to_buyer: false,
    });
    const ofCall = await run("list", "--call", String(callId), "--all");
    expect(rowsOf(ofCall.stdout).map(([id]) => id)).toEqual([String(callback.id)]);
    const all = await run("list", "--all");
    const ids = rowsOf(all.stdout).map(([id]) => Number(id));
    expect(ids).toEqual(ids.toSorted((a, b) => b - a));
    expect(ids).toContain(callback.id);
  });

  test("retry tries one now; exits with 1 once it was sent, and for an ID of none", async () => {
    const { id } = callback;
    await jobgate.store.of(CALLBACKS).endCallback(id, 0, { kind: "dead", reason: "HTTP 410" });
    poked.mockClear();
    expect(await run("retry", String(id))).toEqual({ code: 0, stdout: `${id} is tried now\n`, stderr: "" });
    expect(poked).toHaveBeenCalledOnce();
    await jobgate.store.of(CALLBACKS).endCallback(id, 1, { kind: "sent" });
    expect(await run("retry", String(id))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`Callback ${id} was sent.`) as string,
    });
    expect(await run("retry", "999999")).toMatchObject({ code: 1, stderr: "There is no callback 999999.\n" });
  });

  test("test sends to each configured URL, or to one; exits with 1 for a URL that does not accept", async () => {
    expect(await run("test")).toEqual({
      code: 1,
      stdout: `${OPS} accepts\n`,
      stderr: `${SLOW}: no whole answer within 10 s\n`,
    });
    expect(await run("test", OPS)).toMatchObject({ code: 0, stdout: `${OPS} accepts\n` });
    expect(await run("test", "https://other.example/")).toMatchObject({
      code: 1,
      stderr: "No [[callbacks]] has this URL.\n",
    });
  });
});
