import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { inspectStore } from "../../src/open-store.ts";
import { isBalanced } from "../../src/store/rules/payments.ts";
import { runHereWith } from "../commands/operator-commands.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import type { Jobgate } from "../helpers/jobgate-process.ts";
import { startRunner } from "../helpers/runner.ts";
import { solanaAccount } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { openJournal } from "./journal.ts";

const parts = startBeforeAll(startSolanaParts);

/** Starts a shop whose store is copied before it sells, and can be replaced by the copy. */
async function startCopied() {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-adopt-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let config = "";
  let life: Jobgate | undefined;
  const shop = await startSolanaShop(parts, {
    async start(options) {
      config = options.config;
      life = await startEmbeddedJobgate({ config, folder });
      return new Proxy({} as Jobgate, { get: (_, name) => Reflect.get(life as Jobgate, name) });
    },
  });
  onTestFinished(shop.stop);
  const path = join(folder, "jobgate.db");
  const inspection = await inspectStore({ url: `sqlite:${path}` });
  await inspection.backup(`${path}.copy`).finally(() => inspection.close());
  const copiedAt = new Date();
  return {
    shop,
    path,
    async restore() {
      life?.kill("SIGTERM");
      await life?.exited;
      await rename(`${path}.copy`, path);
      life = await startEmbeddedJobgate({ config, folder });
      // It has no price until the facilitator has said who pays for transactions.
      await until(() => shop.offers().catch(() => undefined));
      const runner = await startRunner({ address: life.runnerAddress });
      onTestFinished(() => runner.stop());
      return runner;
    },
    payments: (...args: string[]) =>
      runHereWith(["payments", ...args, "--target", shop.jobgate.operatorUrl], {
        files: { "jobgate.toml": config },
      }),
    missing: (since = copiedAt) => {
      const options = ["--since", since.toISOString(), "--json", "--target", shop.jobgate.operatorUrl];
      return runHereWith(["payments", "missing", ...options], { files: { "jobgate.toml": config } });
    },
  };
}

it("A payment on Solana that a restored copy lacks is listed, and buys one run once it is adopted", async () => {
  const { cluster, mint, seller, payer } = parts;
  const { shop, path, restore, payments, missing } = await startCopied();
  const payment = await shop.sign();
  expect(await shop.send(payment)).toMatchObject({ status: 202 });
  const signature = cluster.landed.at(-1)?.signature ?? "";
  expect((await missing()).stdout).toBe("");
  const runner = await restore();
  const received = await cluster.balanceOf(seller, mint);
  expect(JSON.parse((await missing()).stdout)).toMatchObject({
    ...{ transaction: signature, from: payer, pay_to: seller, amount: "10000", candidates: [] },
  });
  expect(await shop.send(payment)).toMatchObject({
    ...{ status: 409, code: "authorization_used", charged: "unknown" },
  });
  // Its facilitator refuses it, too, where the RPC does not show the transaction.
  cluster.isOnAnotherFork = true;
  expect(await shop.send(payment)).toMatchObject({ status: 402, code: "payment_invalid" });
  cluster.isOnAnotherFork = false;

  const adopt = () => payments("adopt", "--transaction", signature, "--by", "ada");
  expect(await adopt()).toMatchObject({ code: 0, stdout: expect.stringContaining("one run of 1/0, 1/1") });
  expect((await adopt()).stdout).toContain("was adopted before");
  cluster.isOnAnotherFork = true;
  expect(await shop.send(payment)).toMatchObject({ status: 503, code: "settlement_unknown" });
  cluster.isOnAnotherFork = false;
  const answers = await Promise.all([1, 2, 3].map(() => shop.send(payment)));
  for (const answer of answers) expect(answer).toMatchObject({ status: 202 });
  expect(new Set(answers.map(({ call_id }) => call_id)).size).toBe(1);
  await vi.waitFor(() => expect(runner.calls).toHaveLength(1));
  expect(await shop.send(payment, { body: "other" })).toMatchObject({ status: 409, code: "payment_replay" });
  expect(await cluster.balanceOf(seller, mint)).toBe(received);
  expect(await adopt()).toMatchObject({ code: 1, stderr: expect.stringContaining("in the journal") });
  expect((await missing()).stdout).toBe("");
  const journal = openJournal(path);
  const totals = await journal.totals();
  await journal.close();
  expect(totals.payments).toMatchObject({ settled: 1, intent: 0 });
  expect(isBalanced(totals)).toBe(true);
});

it("An adopted payment on Solana buys its job after its blockhash has expired, and its signature proves the payer", async () => {
  const { cluster } = parts;
  const { shop, restore, payments } = await startCopied();
  const payment = await shop.sign();
  expect(await shop.send(payment)).toMatchObject({ status: 202 });
  const signature = cluster.landed.at(-1)?.signature ?? "";
  const runner = await restore();
  cluster.passSlots(400);
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 600_000 });
  onTestFinished(() => void vi.useRealTimers());
  expect(await shop.send(payment)).toMatchObject({ status: 402, code: "payment_mismatch" });
  expect((await payments("adopt", "--transaction", signature)).code).toBe(0);
  const { transaction } = payment.payload as { transaction: string };
  const forged = Buffer.from(transaction, "base64");
  // The second signature is the payer's.
  forged.set([(forged[70] ?? 0) ^ 1], 70);
  const payload = { transaction: forged.toString("base64") };
  expect(await shop.send({ ...payment, payload })).toMatchObject({ status: 409, code: "authorization_used" });
  expect(await shop.send(payment)).toMatchObject({ status: 202 });
  await vi.waitFor(() => expect(runner.calls).toHaveLength(1));
});

it("A payment on Solana is listed from the second of the copy on, and is not adopted until a finalized block has it, and only if it pays the seller", async () => {
  const { cluster, mint } = parts;
  const { shop, restore, payments, missing } = await startCopied();
  const payment = await shop.sign();
  expect(await shop.send(payment)).toMatchObject({ status: 202 });
  const signature = cluster.landed.at(-1)?.signature ?? "";
  await restore();

  // The newest block of the test's cluster is of this second, and blocks have no finer time.
  const second = Math.floor(Date.now() / 1_000) * 1_000;
  vi.useFakeTimers({ toFake: ["Date"], now: second });
  onTestFinished(() => void vi.useRealTimers());
  expect((await missing(new Date(second + 999))).stdout).not.toBe("");
  expect((await missing(new Date(second + 1_000))).stdout).toBe("");
  vi.useRealTimers();

  const adopt = async (transaction: string) => {
    const { code, stderr } = await payments("adopt", "--transaction", transaction);
    return { code, stderr };
  };
  cluster.finalizedLag = 1;
  onTestFinished(() => {
    cluster.finalizedLag = 0;
  });
  expect(await adopt(signature)).toEqual({ code: 1, stderr: expect.stringContaining("not finalized yet") });
  cluster.finalizedLag = 0;
  expect(await adopt("2".repeat(88))).toEqual({ code: 1, stderr: expect.stringContaining("on none of") });
  expect(await adopt("0x12")).toEqual({ code: 2, stderr: expect.stringContaining("name of a transaction") });
  // The same transfer to another seller.
  const other = await solanaAccount(77);
  await cluster.fund(other.address, mint, 0n);
  const toOther = await shop.sign((offer) => ({ ...offer, payTo: other.address }));
  const requirements = { ...toOther.accepted, payTo: other.address };
  await fetch(`${shop.facilitator.url}/settle`, {
    method: "POST",
    body: JSON.stringify({
      paymentPayload: { ...toOther, accepted: requirements },
      paymentRequirements: requirements,
    }),
  });
  expect(await adopt(cluster.landed.at(-1)?.signature ?? "")).toEqual({
    code: 1,
    stderr: expect.stringContaining("no exact payment"),
  });
  expect((await adopt(signature)).code).toBe(0);
});
