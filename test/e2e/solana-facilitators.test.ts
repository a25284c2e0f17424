import { expect, it, onTestFinished } from "vitest";
import { solanaAccount } from "../helpers/solana-cluster.ts";
import { startSolanaFacilitator } from "../helpers/solana-facilitator.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";

/** Failed verifications after which another facilitator is asked first. */
const FAILURES = 3;

const parts = startBeforeAll(startSolanaParts);

it("A payment on Solana is settled by the owner of its fee payer alone, and offers name the next one's when it fails", async () => {
  const { cluster, seller, mint } = parts;
  const next = await startSolanaFacilitator({ rpcUrl: cluster.rpcUrl, feePayer: 4 });
  onTestFinished(next.stop);
  const shop = await startSolanaShop(parts, { nextFacilitator: next.url });
  onTestFinished(shop.stop);
  const isOffered = async (feePayer: number) => {
    const { accepts } = await shop.offers();
    return accepts[0]?.extra?.feePayer === (await solanaAccount(feePayer)).address;
  };
  await until(() => isOffered(1));
  await until(() => next.counts.supported > 0);
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  expect(next.counts).toMatchObject({ verify: 0, settle: 0 });

  const payments = await Promise.all(Array.from({ length: FAILURES }, () => shop.sign()));
  await shop.facilitator.stop();
  for (const answer of await Promise.all(payments.map((payment) => shop.send(payment))))
    expect(answer).toMatchObject({ status: 503, code: "facilitator_unavailable" });
  expect(next.counts).toMatchObject({ verify: 0, settle: 0 });
  expect(await cluster.balanceOf(seller, mint)).toBe(PRICE);

  await until(() => isOffered(4));
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  expect(next.counts).toMatchObject({ verify: 1, settle: 1 });
  await shop.runner.waitFor(2);
  expect(shop.runner.calls.length).toBe(2);
  expect(await cluster.balanceOf(seller, mint)).toBe(PRICE * 2n);
});
