import { getAddressEncoder } from "@solana/kit";
import { formatEther } from "viem";
import { expect, it, onTestFinished, vi } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { MovementKind, RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { runHereWith } from "../commands/operator-commands.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { SOLANA_NETWORK, solanaAccount, tokenAccountOf } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startReceiver } from "../parts/callbacks/callback-harness.ts";
import { changed, PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { onlyRefund, solanaRefundAccount } from "./refunds-solana.ts";

const parts = startBeforeAll(startSolanaParts);

/** Starts a shop whose jobs fail once they may. */
async function startFailing({
  more = "",
  ...options
}: Parameters<typeof solanaRefundAccount>[1] & { readonly more?: string } = {}) {
  const account = await solanaRefundAccount(parts, options);
  let fail = (): void => undefined;
  const mayFail = new Promise<void>((resolve) => {
    fail = resolve;
  });
  let config = "";
  let logs: readonly string[] = [];
  const shop = await startSolanaShop(parts, {
    start: async (given) => {
      config = account.edit(given.config) + more;
      const jobgate = await startEmbeddedJobgate({ config });
      ({ logs } = jobgate);
      return jobgate;
    },
    handle: async () => {
      await mayFail;
      throw new Fail("no good");
    },
  });
  onTestFinished(shop.stop);
  const operator = createOperatorClient({ address: { url: shop.jobgate.operatorUrl } });
  return { account, shop, fail, operator, config, logs };
}

it("A buyer on Solana whose job failed is paid back: the books and callbacks have both transactions, and the books the fee", async () => {
  const { cluster, mint, payer } = parts;
  const receiver = await startReceiver();
  const { account, shop, fail, operator } = await startFailing({
    more: `[[callbacks]]
url = "${receiver.url}"
secret = "whsec_${Buffer.alloc(32, 7).toString("base64")}"
events = ["payment.settled", "refund.sent"]
`,
  });
  const before = await cluster.balanceOf(payer, mint);
  expect((await shop.offers()).resource.description).toContain("Refunded if it fails.");
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  const paidIn = cluster.landed.at(-1)?.signature;
  fail();
  await expect
    .poll(() => onlyRefund(shop.jobgate))
    .toMatchObject({ state: RefundState.REFUNDED, amount: String(PRICE), payer });
  expect(await cluster.balanceOf(payer, mint)).toBe(before);
  const transaction = (await onlyRefund(shop.jobgate))?.transaction;
  expect(account.sent()).toEqual([transaction]);
  const { movements } = await operator.listMovements({});
  const sent = movements.filter((movement) => movement.account === account.address);
  expect(sent.map(({ kind, amount, transaction: of }) => [kind, amount, of])).toEqual([
    [MovementKind.NETWORK_FEE, "-0.000009", transaction],
    [MovementKind.REFUND, "-0.01", transaction],
  ]);
  expect(await operator.getTotals({})).toMatchObject({ balanced: true, kept: 0n });

  await expect.poll(() => receiver.calls.length).toBe(2);
  const told = receiver.calls.map(({ body }) => JSON.parse(body));
  const money = {
    ...{ network: SOLANA_NETWORK, asset: mint, symbol: "USDC" },
    ...{ amount: String(PRICE), payer },
  };
  expect(told.find(({ type }) => type === "payment.settled").data).toMatchObject({
    ...money,
    transaction: paidIn,
  });
  expect(told.find(({ type }) => type === "refund.sent").data).toMatchObject({ ...money, transaction });
});

it("A payment that a fork can still take away is not paid back, and once it is gone the refund waits for the operator", async () => {
  const { cluster } = parts;
  const { account, shop, fail } = await startFailing();
  cluster.passSlots(2);
  cluster.finalizedLag = 1;
  cluster.passSlots(1);
  onTestFinished(() => {
    cluster.finalizedLag = 0;
  });
  const sent = account.sent().length;
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  fail();
  await expect.poll(() => onlyRefund(shop.jobgate)).toMatchObject({ state: RefundState.OWED });
  // Each round begins with the balance of the refund account, before it looks at the payments.
  const rounds = () => cluster.calls.filter((method) => method === "getAccountInfo").length;
  const before = rounds();
  await expect.poll(rounds, { timeout: 20_000 }).toBeGreaterThan(before + 1);
  expect(await onlyRefund(shop.jobgate)).toMatchObject({ state: RefundState.OWED });
  cluster.fork("fails");
  cluster.finalizedLag = 0;
  await expect
    .poll(() => onlyRefund(shop.jobgate), { timeout: 20_000 })
    .toMatchObject({ state: RefundState.OWED, reason: expect.stringContaining("failed") });
  expect(account.sent().length).toBe(sent);
});

it("A buyer who has closed the token account is paid back into a new one, at the seller's cost", async () => {
  const { cluster, mint, payer } = parts;
  const { account, shop, fail } = await startFailing();
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  const left = (await cluster.balanceOf(payer, mint)) ?? 0n;
  await cluster.close(payer, mint);
  onTestFinished(async () => void (await cluster.fund(payer, mint, left)));
  expect(await cluster.balanceOf(payer, mint)).toBeUndefined();
  const lamports = cluster.lamportsOf(account.address);
  fail();
  await expect.poll(() => onlyRefund(shop.jobgate)).toMatchObject({ state: RefundState.REFUNDED });
  expect(await cluster.balanceOf(payer, mint)).toBe(PRICE);
  expect(lamports - cluster.lamportsOf(account.address)).toBe(2_039_280n + 9_000n);
});

it("A refund whose blocks the RPC has dropped waits for the operator, and an approval sends another transaction", async () => {
  const { cluster, mint, payer } = parts;
  const { account, shop, fail, operator } = await startFailing();
  const before = (await cluster.balanceOf(payer, mint)) ?? 0n;
  const sent = account.sent().length;
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  cluster.dropsTransactions = true;
  onTestFinished(() => {
    Object.assign(cluster, { dropsTransactions: false, firstSlot: 0 });
    vi.restoreAllMocks();
  });
  const broadcasts = () => cluster.calls.filter((method) => method === "sendTransaction").length;
  const first = broadcasts();
  fail();
  await expect.poll(broadcasts).toBeGreaterThan(first);
  const now = Date.now;
  vi.spyOn(Date, "now").mockImplementation(() => now() + 100_000);
  cluster.passSlots(200);
  cluster.firstSlot = Number.MAX_SAFE_INTEGER;
  await expect
    .poll(() => onlyRefund(shop.jobgate), { timeout: 20_000 })
    .toMatchObject({
      state: RefundState.SENDING,
      asks: true,
      reason: expect.stringContaining("the RPC no longer has the blocks"),
      transaction: expect.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{64,88}$/),
    });
  cluster.dropsTransactions = false;
  const { refund } = await operator.approveRefund({
    callId: (await onlyRefund(shop.jobgate))?.callId ?? 0n,
    ...{ by: "ada", note: "no block has it" },
  });
  expect(refund).toMatchObject({ state: RefundState.SENDING, asks: false, reason: "" });
  await expect
    .poll(() => onlyRefund(shop.jobgate), { timeout: 20_000 })
    .toMatchObject({ state: RefundState.REFUNDED, attempt: 1 });
  expect(account.sent().length).toBe(sent + 1);
  expect(await cluster.balanceOf(payer, mint)).toBe(before);
});

it("A payment from another account of the payer than the associated one goes back to that account", async () => {
  const { cluster, mint, payer } = parts;
  const { shop, fail } = await startFailing();
  const [own, { address: source }] = [await tokenAccountOf(payer, mint), await solanaAccount(88)];
  await cluster.fund(payer, mint, PRICE, source);
  const before = cluster.unitsOf(own);
  const [from, to] = [own, source].map((one) => Buffer.from(getAddressEncoder().encode(one)));
  const payment = await changed(await shop.sign(), (bytes) => bytes.set(to ?? [], bytes.indexOf(from ?? "")));
  expect(await shop.send(payment)).toMatchObject({ status: 202 });
  expect(cluster.unitsOf(source)).toBe(0n);
  fail();
  await expect.poll(() => onlyRefund(shop.jobgate)).toMatchObject({ state: RefundState.REFUNDED });
  expect([cluster.unitsOf(source), cluster.unitsOf(own)]).toEqual([PRICE, before]);
});

it("A refund waits until the account has SOL and the RPC simulates the transaction, and the log says so", async () => {
  const { cluster } = parts;
  const { account, shop, fail, logs } = await startFailing({ number: 6, lamports: 895_000n });
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  const logged = () => logs.map((line) => JSON.parse(line));
  fail();
  await expect.poll(logged).toContainEqual(
    expect.objectContaining({
      ...{ level: 50, account: account.address },
      msg: "refunds wait: send SOL to the refund account",
    }),
  );
  cluster.simulationError = "BlockhashNotFound";
  onTestFinished(() => {
    cluster.simulationError = undefined;
  });
  cluster.airdrop(account.address, 1_000_000_000n);
  await expect.poll(logged).toContainEqual(
    expect.objectContaining({
      ...{ level: 40, reference: expect.stringMatching(/^refund-\d+-1$/) },
      reason: expect.stringContaining("BlockhashNotFound"),
      msg: "a refund waits: its transaction cannot be simulated now",
    }),
  );
  expect(await onlyRefund(shop.jobgate)).toMatchObject({ state: RefundState.SENDING });
  cluster.simulationError = undefined;
  await expect.poll(() => onlyRefund(shop.jobgate)).toMatchObject({ state: RefundState.REFUNDED });
});

it("Refunds on Solana wait while the account is short of tokens, which metrics and `jobgate check --online` show, and its SOL", async () => {
  const { cluster, mint, payer } = parts;
  const { account, shop, fail, config } = await startFailing({ tokens: PRICE - 1n });
  const check = async (edit = (text: string) => text) =>
    (await runHereWith(["check", "--online"], { files: { "jobgate.toml": edit(config) } })).stdout;
  const balance = `${formatEther(cluster.lamportsOf(account.address) * 10n ** 9n)} native units`;
  const line = `refunds on ${SOLANA_NETWORK}: ${account.address} (balance ${balance}`;
  expect(await check()).toContain(`${line}; 0.009999 USDC)`);
  await cluster.fund(account.address, mint, 0n);
  expect(await check((text) => `${text}min_balance = "1000"\n`)).toContain(
    `${line}, less than min_balance 1000 native units; 0 USDC: refunds wait until it has tokens)`,
  );
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  fail();
  await expect
    .poll(() => onlyRefund(shop.jobgate))
    .toMatchObject({ state: RefundState.OWED, reason: "the refund account is short of tokens" });
  const metrics = async () => (await fetch(`${shop.jobgate.operatorUrl}/metrics`)).text();
  const labels = `{network="${SOLANA_NETWORK}",asset="${mint}"}`;
  await expect.poll(metrics).toContain(`jobgate_refund_account_short${labels} 1`);
  await expect
    .poll(metrics)
    .toContain(`jobgate_settler_balance{network="${SOLANA_NETWORK}/refunds",address="${account.address}"} `);
  const before = (await cluster.balanceOf(payer, mint)) ?? 0n;
  const sent = account.sent().length;
  await cluster.fund(account.address, mint, PRICE);
  await expect.poll(() => onlyRefund(shop.jobgate)).toMatchObject({ state: RefundState.REFUNDED });
  expect(await cluster.balanceOf(payer, mint)).toBe(before + PRICE);
  expect(account.sent().length).toBe(sent + 1);
});
