import { afterEach, describe, expect, test, vi } from "vitest";
import { bodyOperation } from "../../../src/parts/bodies/operator.ts";
import { BODIES } from "../../../src/parts/bodies/store/module.ts";
import type { Store } from "../../../src/store/store.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startLog } from "../../helpers/log.ts";
import { callJson, startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { acceptId, claimOne, paidId } from "../../store/store-fixtures.ts";

let isAllowed = true;
const { logger, lines } = startLog();
const additionsOf = (store: Store) => [
  {
    loadApi: async () =>
      bodyOperation({ bodies: store.of(BODIES), store, isAllowed: () => isAllowed, logger }),
  },
];
const jobgate = startBeforeAll(() => startOperator({ token: TOKEN, additions: additionsOf }));
const read = (request: object) =>
  callJson(jobgate.url, "GetCallContent", request, { authorization: `Bearer ${TOKEN}` });
const base64 = (text: string) => Buffer.from(text).toString("base64");

afterEach(() => {
  isAllowed = true;
  vi.unstubAllEnvs();
});

/** Buys a call that is done with a result. */
async function done(number: number, body: string): Promise<number> {
  const callId = await paidId(jobgate.store, number);
  await jobgate.store.ack(await claimOne(jobgate.store), {
    body: Buffer.from(body),
    contentType: "text/html",
    status: 418,
    headers: [["X-Pot", "tea"]],
  });
  return callId;
}

describe("GetCallContent", () => {
  test("Without show_bodies nothing is shown, and the answer names the key", async () => {
    const callId = await jobgate.deadLetter("secret body");
    isAllowed = false;
    const { status, answer } = await read({ call_id: callId });
    expect([status, answer.code]).toEqual([403, "permission_denied"]);
    expect(answer.message).toContain("[operator] show_bodies = true");
    expect(JSON.stringify(answer)).not.toContain(base64("secret body"));
  });

  test("Each reading is logged with the call, and with the reader's name if it is known", async () => {
    const callId = await jobgate.deadLetter("the body");
    const shown = () =>
      lines
        .filter(({ msg }) => msg === "body and result of a call shown")
        .map(({ callId, by }) => [callId, by]);
    const before = shown().length;
    expect((await read({ call_id: callId, by: "ada" })).answer.body).toContain(
      base64("the body").slice(0, 8),
    );
    await read({ call_id: callId });
    expect(shown().slice(before)).toEqual([
      [callId, "ada"],
      [callId, undefined],
    ]);
  });

  test("A call that is done shows its result with status and headers, and no body any more", async () => {
    const callId = await done(1, "<b>42</b>");
    expect((await read({ call_id: callId })).answer).toEqual({
      ...{ result: base64("<b>42</b>"), result_bytes: "9", body_bytes: "0", content_type: "text/html" },
      ...{ status: 418, headers: [{ name: "X-Pot", value: "tea" }] },
    });
  });

  test("At most 64 KiB are shown of a body and of a result, and their whole size", async () => {
    const callId = await acceptId(jobgate.store, { body: Buffer.alloc(65_537, "x") });
    const { answer } = await read({ call_id: callId });
    expect(Buffer.from(String(answer.body), "base64")).toHaveLength(65_536);
    expect(answer.body_bytes).toBe("65537");
    await jobgate.store.ack(await claimOne(jobgate.store));
    const large = await done(2, "y".repeat(65_537));
    const { answer: ofResult } = await read({ call_id: large });
    expect(Buffer.from(String(ofResult.result), "base64")).toHaveLength(65_536);
    expect(ofResult.result_bytes).toBe("65537");
  });

  test("A call that does not exist is answered NOT_FOUND, and is not logged", async () => {
    const before = lines.length;
    expect((await read({ call_id: 999_999 })).status).toBe(404);
    expect(lines).toHaveLength(before);
  });
});

describe("jobgate jobs body", () => {
  test("Body and result are printed as text that cannot control the terminal, and the user's name is logged", async () => {
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
    const callId = await done(3, "first\n\u001b[31mred");
    const where = ["--target", jobgate.operator.address, "--by", "ada"];
    const { code, stdout } = await runHere("jobs", "body", String(callId), ...where);
    expect(code).toBe(0);
    expect(stdout).toContain("result        14 bytes");
    expect(stdout).toContain("first\n\\u{1b}[31mred");
    expect(lines.at(-1)).toMatchObject({ callId, by: "ada" });
  });
});
