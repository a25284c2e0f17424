import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { HoldingSchema, RefundState } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { whyWaiting } from "../../../src/parts/refunds/command.ts";
import { REFUNDS } from "../../../src/parts/refunds/store/module.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne, newTransaction, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const AMOUNT = "3264000 base units of USDC";
const jobgate = startBeforeAll(() => startOperator({ token: TOKEN }));
let bought = 0;
/** A refund that is sent by itself, and one that waits for the operator. */
let [due, asks] = [0, 0];

beforeEach(async () => {
  due = await buyAndFail("refund");
  asks = await buyAndFail("ask");
});
afterEach(() => vi.unstubAllEnvs());

async function buyAndFail(onFailure: string): Promise<number> {
  const { store } = jobgate;
  const intent = paymentIntent(++bought, { onFailure });
  await store.beginPayment(intent, paidCall());
  await store.settlePayment(intent.key, "{}");
  const claimed = await claimOne(store);
  await store.fail(claimed, "no good");
  return claimed.callId;
}

const run = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere("refunds", ...args, "--target", jobgate.operator.address);
};
const decide = (verdict: "approve" | "decline", id: number, note = "as agreed") =>
  run(verdict, String(id), "--note", note, "--by", "ada");
const rowsOf = (stdout: string) =>
  stdout
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((row) => row.split(/ {2,}/));

test("A refund that was approved waits with the balance of its account, if that is too low", () => {
  const token = { network: "eip155:84532", asset: "0xAB" };
  const refund = { ...token, state: RefundState.OWED, amount: "3264000", reason: "" };
  const held = { ...token, asset: "0xab", account: "0x1", pays: "refunds", symbol: "USDC", decimals: 6 };
  const holding = create(HoldingSchema, { ...held, amount: "1500000" });
  const text = (one: typeof holding) => whyWaiting(refund, { holdings: [one] });
  expect(text(holding)).toBe(": it waits, because account 0x1 had only 1.5 USDC when it was last read");
  expect(text({ ...holding, amount: "3264000" })).toBe(": jobgate sends it now");
  expect(text({ ...holding, pays: "settlements" })).toBe(": jobgate sends it now");
  expect(whyWaiting({ ...refund, state: RefundState.SENDING }, { holdings: [holding] })).toBe("");
});

describe("jobgate refunds", () => {
  test("list prints a table of refunds, newest first, with refunds that wait for the operator", async () => {
    const { code, stdout } = await run("list", "--limit", "2");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ID +STATE +AMOUNT +NETWORK +PAYER +OWED SINCE +TRANSACTION +REASON\n/);
    const [, , , network, payer] = rowsOf(stdout)[0] ?? [];
    expect([network, payer]).toEqual(["Base Sepolia", paymentIntent(1).key.payer]);
    expect(rowsOf(stdout).map((row) => row.slice(0, 3))).toEqual([
      [String(asks), "owed, asks you", AMOUNT],
      [String(due), "owed", AMOUNT],
    ]);
  });

  test("list selects by --state or its environment twin, and prints lines of JSON", async () => {
    await decide("decline", asks);
    const { stdout } = await run("list", "--state", "declined", "--limit", "1", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      call_id: String(asks),
      state: "REFUND_STATE_DECLINED",
      amount: "3264000",
      decision: { approved: false, by: "ada", note: "as agreed" },
    });
    vi.stubEnv("JOBGATE_STATE", "declined");
    expect((await run("list", "--limit", "1")).stdout).toMatch(new RegExp(`^${asks} +declined `, "m"));
  });

  test("approve sends a refund that waits for the operator; exits with 1 once it is sent, and for an ID without a refund", async () => {
    expect(await decide("approve", asks)).toEqual({
      code: 0,
      stdout: `${asks} owed, approved, ${AMOUNT}: it waits, because the configuration has no account for refunds\n`,
      stderr: "",
    });
    expect(rowsOf((await run("list", "--limit", "1")).stdout)[0]).toEqual([
      ...[String(asks), "owed, approved", AMOUNT],
      ...[expect.any(String), expect.any(String), expect.stringMatching(/^20/), "-"],
      // Operators see why it is not sent: the configuration of this jobgate has no [x402.refunds].
      "approved by ada: as agreed; the configuration has no account for refunds",
    ]);
    expect(await decide("approve", asks)).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining(`Refund ${asks} is owed and sent without another approval`),
    });
    expect(await decide("approve", 9_999)).toMatchObject({
      code: 1,
      stderr: "There is no refund with call id 9999.\n",
    });
  });

  test("decline keeps the money until the refund is being sent; approve takes a failed or declined one up again", async () => {
    expect((await decide("decline", due)).stdout).toBe(`${due} declined, ${AMOUNT}\n`);
    expect((await decide("approve", due)).stdout).toMatch(
      new RegExp(`^${due} owed, approved, ${AMOUNT}: it waits, because`),
    );
    const transaction = newTransaction(due);
    await jobgate.store.of(REFUNDS).sendRefund(due, 1, transaction);
    expect(await decide("decline", due)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`Refund ${due} is sending: it cannot be declined.`),
    });
    const end = { state: "failed", reason: "blocked \u001b[2J" } as const;
    await jobgate.store.of(REFUNDS).endRefund(due, transaction.reference, end);
    const { stdout } = await run("list", "--state", "refund_failed");
    expect(stdout).toContain("approved by ada: as agreed; blocked \\u{1b}[2J");
    expect(stdout).not.toContain("\u001b");
    expect((await decide("approve", due)).code).toBe(0);
    expect((await jobgate.store.of(REFUNDS).listRefunds({ limit: 1, before: due + 1 }))[0]).toMatchObject({
      attempt: 2,
    });
  });

  test("The payment and the lists of payments say what became of its refund", async () => {
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
    const of = (...args: string[]) => runHere("payments", ...args, "--target", jobgate.operator.address);
    await decide("decline", asks);
    const { stdout } = await of("list", "--limit", "2");
    expect(rowsOf(stdout).map(([id, state]) => [id, state])).toEqual([
      [String(asks), "settled, refund declined"],
      [String(due), "settled, refund owed"],
    ]);
    expect((await of("show", String(due))).stdout).toMatch(/^state +settled, refund owed$/m);
  });

  test("Exits with 2 for bad usage, and changes nothing", async () => {
    for (const args of [
      [],
      ["list", "--state", "lost"],
      ["approve", String(asks)],
      ["approve", "--note", "x"],
      ["decline", "01", "--note", "x"],
    ]) {
      const { code, stdout } = await runHere("refunds", ...args);
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
    }
    expect((await run("list", "--limit", "1")).stdout).toContain("owed, asks you");
  });

  test("--help of each command shows one example", async () => {
    for (const command of ["list", "approve", "decline"]) {
      const { stdout } = await runHere("refunds", command, "--help");
      expect(stdout.match(/\$ jobgate /g)).toHaveLength(1);
      expect(stdout).toContain(`$ jobgate refunds ${command}`);
    }
  });
});
