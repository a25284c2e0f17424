import { expect, it, onTestFinished } from "vitest";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { solanaAccount } from "../../helpers/solana-cluster.ts";
import { startSolanaFacilitator } from "../../helpers/solana-facilitator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "./harness.ts";
import { settledHere } from "./own-settlement.ts";

/** Number of an account that has no account for the token. */
const WITHOUT_ACCOUNT = 7;

const parts = startBeforeAll(startSolanaParts);

it("A payment that a restarted facilitator calls failed, although it has paid, is sold once", async () => {
  const { cluster, seller, mint } = parts;
  const shop = await startSolanaShop(parts, {
    start: ({ config }) =>
      startEmbeddedJobgate({ config: config.replace("timeout_secs = 5", "timeout_secs = 1") }),
  });
  onTestFinished(shop.stop);
  const received = (await cluster.balanceOf(seller, mint)) ?? 0n;
  shop.facilitator.losesAnswers = true;
  cluster.isOnAnotherFork = true;
  onTestFinished(() => {
    cluster.isOnAnotherFork = false;
  });
  const payment = await shop.sign();
  const selling = shop.send(payment);
  await until(() => shop.facilitator.settled.length > 0);
  await shop.restartFacilitator();
  expect(await selling).toMatchObject({ status: 503, charged: "unknown" });
  await until(async () => {
    expect(await shop.send(payment)).toMatchObject({ status: 503, charged: "unknown" });
    return shop.facilitator.settled.length > 0;
  });
  expect(shop.facilitator.settled).toMatchObject([{ success: false }]);
  expect(shop.runner.calls).toEqual([]);

  cluster.isOnAnotherFork = false;
  await until(async () => (await shop.send(payment)).status === 202);
  await shop.runner.waitFor(1);
  expect(shop.runner.calls.length).toBe(1);
  expect(await cluster.balanceOf(seller, mint)).toBe(received + PRICE);
});

it.each([
  ["a facilitator", (config: string) => config],
  ["jobgate", (config: string) => settledHere(config, parts)],
])(
  "A payment to a seller without a token account is refused before it moves, where %s settles",
  async (_, edit) => {
    const { address: seller } = await solanaAccount(WITHOUT_ACCOUNT);
    const shop = await startSolanaShop(
      { cluster: parts.cluster, mint: parts.mint, payer: parts.payer, stop: parts.stop, seller },
      { start: async ({ config }) => startEmbeddedJobgate({ config: await edit(config) }) },
    );
    onTestFinished(shop.stop);
    const landed = parts.cluster.landed.length;
    expect(await shop.send(await shop.sign())).toMatchObject({
      status: 402,
      code: "payment_invalid",
      charged: false,
    });
    expect(parts.cluster.landed.length).toBe(landed);
    expect(shop.runner.calls).toEqual([]);
  },
);

it("Offers name the new fee payer of a facilitator soon after it refuses a payment at its old one", async () => {
  const { cluster } = parts;
  const { address: fresh } = await solanaAccount(4);
  const shop = await startSolanaShop(parts);
  onTestFinished(shop.stop);
  const old = await shop.sign();
  await shop.facilitator.stop();
  const { port } = shop.facilitator;
  const changed = await startSolanaFacilitator({ rpcUrl: cluster.rpcUrl, port, feePayer: 4 });
  onTestFinished(changed.stop);
  const isOffered = async () => (await shop.offers()).accepts[0]?.extra?.feePayer === fresh;
  await until(
    async () => {
      const { status } = await shop.send(old);
      expect(status).toBe(402);
      return isOffered();
    },
    { waitMs: 20_000 },
  );
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
});

it("A payment whose fee payer was never offered is refused with a fresh offer, by one facilitator and by several", async () => {
  const { address: stranger } = await solanaAccount(8);
  const next = await startSolanaFacilitator({ rpcUrl: parts.cluster.rpcUrl, feePayer: 4 });
  onTestFinished(next.stop);
  for (const options of [{}, { nextFacilitator: next.url }]) {
    const shop = await startSolanaShop(parts, options);
    onTestFinished(shop.stop);
    await until(async () => (await shop.offers()).accepts.length === 1);
    await until(() => options.nextFacilitator === undefined || next.counts.supported > 0);
    const foreign = (extra: object | undefined) => ({ ...extra, feePayer: stranger });
    const payment = await shop.sign((offer) => ({ ...offer, extra: foreign(offer.extra) }));
    const accepted = { ...payment.accepted, extra: foreign(payment.accepted.extra) };
    expect(await shop.send({ ...payment, accepted })).toMatchObject({
      status: 402,
      code: "payment_mismatch",
    });
    expect(shop.facilitator.counts).toMatchObject({ verify: 0, settle: 0 });
  }
});
