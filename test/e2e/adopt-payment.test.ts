import { rename } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { inspectStore } from "../../src/open-store.ts";
import { isBalanced } from "../../src/store/rules/payments.ts";
import { runHere } from "../commands/operator-commands.ts";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { openJournal } from "./journal.ts";
import { withPermit2 } from "./paid-config.ts";
import { type PaidGateway, type PaidGatewayOptions, type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const ADOPTED = `0x${"ab".repeat(32)}`;

/** Starts a gateway, and copies its store. */
async function startCopied(options: Partial<PaidGatewayOptions> = {}) {
  const gateway = await startPaidGateway({ parts, setUp: "rpc_url", ...options });
  onTestFinished(() => gateway.stop());
  const path = join(gateway.jobgate.folder, "jobgate.db");
  const inspection = await inspectStore({ url: `sqlite:${path}` });
  await inspection.backup(`${path}.copy`).finally(() => inspection.close());
  async function restore(): Promise<void> {
    gateway.jobgate.kill("SIGTERM");
    await gateway.jobgate.exited;
    await rename(`${path}.copy`, path);
    await gateway.startAgain();
  }
  return { gateway, restore };
}

async function adopt({ jobgate }: PaidGateway, transaction: string | undefined, ...more: string[]) {
  const named = ["--transaction", transaction ?? "", "--by", "ada", ...more];
  return runHere("payments", "adopt", ...named, "--target", jobgate.operatorUrl);
}

async function buyAndLose(
  body: string,
  options: Partial<PaidGatewayOptions> = {},
): Promise<{ gateway: PaidGateway; payment: Payment; transaction: string }> {
  const { gateway, restore } = await startCopied(options);
  const payment = await gateway.sign();
  const { settlement } = await gateway.send(payment, { body });
  await gateway.waitForJobs(body);
  await restore();
  return { gateway, payment, transaction: settlement?.transaction ?? "none" };
}

describe("A payment that a restored copy lacks", () => {
  it("Buys one run of one job once it is adopted, and is charged no more", async () => {
    const { gateway, payment, transaction } = await buyAndLose("first");
    const received = await parts.usdc.balanceOf(accounts.payTo.address);
    expect(await gateway.send(payment, { body: "again" })).toMatchObject({
      ...{ status: 409, code: "authorization_used", charged: "unknown" },
    });
    const adopted = await adopt(gateway, transaction);
    expect(adopted).toMatchObject({ code: 0, stdout: expect.stringContaining("one run of 1/0, 1/1") });
    const repeated = await adopt(gateway, transaction.toUpperCase().replace("0X", "0x"));
    expect(repeated).toMatchObject({ code: 0, stdout: expect.stringContaining("was adopted before") });

    // A forged signature buys nothing, although the chain shows payer and nonce to everyone.
    const forged = await gateway.sign({
      account: accounts.otherPayer,
      authorization: payment.signed.authorization,
    });
    expect((await gateway.send(forged, { body: "again" })).status).not.toBe(202);

    // Its money has moved: no answer may lead its buyer to sign another.
    expect(await gateway.send(payment, { body: "again", job: 99 })).toMatchObject({
      ...{
        status: 409,
        code: "authorization_used",
        charged: "unknown",
      },
    });

    const answers = await Promise.all([1, 2, 3].map(() => gateway.send(payment, { body: "again" })));
    for (const answer of answers)
      expect(answer).toMatchObject({ status: 202, settlement: { success: true, transaction } });
    expect(new Set(answers.map(({ call_id }) => call_id)).size).toBe(1);
    await gateway.waitForJobs("again");
    expect(await gateway.send(payment, { body: "other" })).toMatchObject({
      status: 409,
      code: "payment_replay",
    });
    expect(await gateway.send(payment, { body: "again", job: 1 })).toMatchObject({ status: 409 });
    await gateway.restart();
    expect(await gateway.send(payment, { body: "again" })).toMatchObject({
      status: 202,
      call_id: answers[0]?.call_id,
    });
    expect(gateway.jobsWith("again")).toHaveLength(1);
    expect(gateway.jobsWith("other")).toEqual([]);

    // The gateway's own view is of the file that was replaced.
    const journal = openJournal(join(gateway.jobgate.folder, "jobgate.db"));
    const totals = await journal.totals();
    await journal.close();
    expect(totals.payments).toMatchObject({ settled: 1, intent: 0 });
    expect(isBalanced(totals)).toBe(true);
    expect(await parts.usdc.balanceOf(accounts.payTo.address)).toBe(received);
    const known = await adopt(gateway, transaction);
    expect(known).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`in the journal, as ${answers[0]?.call_id}`),
    });
    const range = ["--from", "2000-01-01T00:00Z", "--to", "2100-01-01T00:00Z", "--format", "jsonl"];
    const { stdout } = await runHere("payments", "export", ...range, "--target", gateway.jobgate.operatorUrl);
    const moved = stdout.split("\n").filter((line) => line.includes(transaction));
    expect(moved).toHaveLength(1);
    expect(moved[0]).toContain(`"${AMOUNT}"`);
  });

  it("Buys its job also after its authorization has ended, and has each job named once, although two transfer methods sell it", async () => {
    const edit = (config: string) => withPermit2(config);
    const { gateway, payment, transaction } = await buyAndLose("long ago", { edit });
    await parts.passTime(600);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 600_000 });
    onTestFinished(() => void vi.useRealTimers());
    expect(await gateway.send(payment, { body: "long ago" })).toMatchObject({
      ...{ status: 402, code: "payment_mismatch" },
    });
    const adopted = await adopt(gateway, transaction);
    expect(adopted).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/one run of 1\/0, 1\/1 by sending/),
    });
    expect(await gateway.send(payment, { body: "long ago" })).toMatchObject({ status: 202 });
    await gateway.waitForJobs("long ago", 2);
  });

  it("Is refused with the reason when it cannot be adopted", async () => {
    const { gateway, restore } = await startCopied({ confirmations: 1, rpcFaults: true });
    const payment = await gateway.sign();
    const { settlement } = await gateway.send(payment);
    const journalled = await adopt(gateway, settlement?.transaction);
    expect(journalled).toMatchObject({ code: 1, stderr: expect.stringContaining("in the journal") });
    expect(await adopt(gateway, ADOPTED)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("on none of"),
    });
    expect(await adopt(gateway, "0x12")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("64 hex digits"),
    });
    const { client } = parts.anvil;
    await parts.usdc.mint(accounts.payTo.address, AMOUNT);
    const mint = (await client.getBlock({ includeTransactions: false })).transactions[0];
    expect(await adopt(gateway, mint)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("no exact payment"),
    });
    await restore();
    gateway.rpcProxy.add({ fault: { kind: "cut" } });
    const silent = await adopt(gateway, settlement?.transaction);
    expect(silent).toMatchObject({ code: 1, stderr: expect.stringContaining("rpc_url does not show") });
    gateway.rpcProxy.clear();
    expect((await adopt(gateway, settlement?.transaction, "--json")).stdout).toContain(
      settlement?.transaction,
    );
  });
});
