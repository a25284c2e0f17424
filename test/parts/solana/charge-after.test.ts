import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { expect, it, onTestFinished, vi } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { AFTER, AFTER_TABLE, chargeOf as chargeAt } from "./charge-after.ts";
import { type Answer, PRICE, startSolanaParts, startSolanaShop } from "./harness.ts";

/** Transactions that had landed when each job ran, by its body. */
const landedAtRun = new Map<string, number>();
/** End the jobs that are held, in the order of their delivery. */
const held: (() => void)[] = [];

const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() =>
  startSolanaShop(parts, {
    more: AFTER_TABLE,
    start: ({ config }) =>
      startEmbeddedJobgate({ config: config.replace("[runner]", "[runner]\nlease_secs = 300") }),
    async handle({ body }) {
      const text = Buffer.from(body).toString();
      landedAtRun.set(text, parts.cluster.landed.length);
      if (text.startsWith("fail")) throw new Fail("no ink");
      if (text.startsWith("hold")) await new Promise<void>((resolve) => held.push(resolve));
      return undefined;
    },
  }),
);

const sign = (change?: (offer: PaymentRequirements) => PaymentRequirements) => shop.sign(change, 2, AFTER);
const send = (payment: PaymentPayload, body: string) => shop.send(payment, { job: AFTER, body });

const chargeOf = (answer: Answer) => chargeAt(shop.jobgate.x402Url, answer);

it("A job runs before anything moves, and is paid once it succeeded", async () => {
  const landed = parts.cluster.landed.length;
  const payment = await sign();
  const answer = await send(payment, "work");
  expect(answer).toMatchObject({ status: 202, payment: "authorized" });
  await expect.poll(() => chargeOf(answer)).toBe("settled");
  expect(landedAtRun.get("work")).toBe(landed);
  expect(parts.cluster.landed.length).toBe(landed + 1);
  expect(await send(payment, "work")).toMatchObject({ status: 202, call_id: answer.call_id });
  expect(parts.cluster.landed.length).toBe(landed + 1);
});

it("A job that fails is not paid", async () => {
  const balance = await parts.cluster.balanceOf(parts.seller, parts.mint);
  const answer = await send(await sign(), "fail");
  expect(answer).toMatchObject({ status: 202 });
  await expect.poll(() => chargeOf(answer)).toBe("released");
  expect(await parts.cluster.balanceOf(parts.seller, parts.mint)).toBe(balance);
});

it("A payment whose memo was changed to a later time is refused, because its end is not known", async () => {
  const changed = (offer: PaymentRequirements): PaymentRequirements => {
    const [secs, ...rest] = (offer.extra.memo as string).split("-");
    return { ...offer, extra: { ...offer.extra, memo: [Number(secs) + 5, ...rest].join("-") } };
  };
  let offer: PaymentRequirements | undefined;
  const payment = await sign((one) => {
    offer = changed(one);
    return offer;
  });
  const sent = { ...payment, accepted: offer as PaymentRequirements };
  expect(await send(sent, "later")).toMatchObject({ status: 402, code: "payment_mismatch" });
  expect(landedAtRun.has("later")).toBe(false);
});

it("A payer who can pay one of two payments at once buys one job", async () => {
  const { cluster, payer, mint } = parts;
  const units = (await cluster.balanceOf(payer, mint)) ?? 0n;
  const [first, second] = [await sign(), await sign()];
  await cluster.fund(payer, mint, PRICE);
  onTestFinished(async () => {
    await cluster.fund(payer, mint, units);
  });
  const answer = await send(first, "hold one");
  expect(answer).toMatchObject({ status: 202 });
  expect(await send(second, "hold two")).toMatchObject({
    status: 402,
    code: "payment_invalid",
    charged: false,
  });
  (await until(() => held.shift()))();
  await expect.poll(() => chargeOf(answer)).toBe("settled");
});

it("A charge whose facilitator was away is requested again while its payment lasts", async () => {
  const answer = await send(await sign(), "hold for the facilitator");
  const end = await until(() => held.shift());
  const { settle } = shop.facilitator.counts;
  shop.facilitator.isAway = true;
  end();
  await until(() => shop.facilitator.counts.settle > settle);
  shop.facilitator.isAway = false;
  await expect.poll(() => chargeOf(answer), { timeout: 20_000 }).toBe("settled");
});

/** The least time for which a blockhash is good, without the margin. */
const ENDED_AFTER_SECS = 55 - 15;

it("A job that runs into the margin before its blockhash can expire is ended, and never charged", async () => {
  const { cluster, seller, mint } = parts;
  const received = await cluster.balanceOf(seller, mint);
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const signedAt = Date.now();
  const payment = await sign();
  const answer = await send(payment, "hold into the margin");
  expect(answer).toMatchObject({ status: 202 });
  const end = await until(() => held.shift());
  vi.setSystemTime(signedAt + (ENDED_AFTER_SECS + 1) * 1_000);
  await expect.poll(() => chargeOf(answer)).toBe("released");
  end();
  expect(await send(payment, "hold into the margin")).toMatchObject({ status: 202, payment: "released" });
  expect(await cluster.balanceOf(seller, mint)).toBe(received);
  expect(shop.jobgate.logs.join("\n")).toContain("authorization ends before the job is done");
});

it("A payment whose blockhash an RPC that lags named too late buys no job", async () => {
  const { cluster } = parts;
  cluster.lag = 100;
  onTestFinished(() => {
    cluster.lag = 0;
  });
  // Offers name one blockhash for 2 s.
  const payment = await until(async () => {
    const signed = await sign();
    const [readAt] = String(signed.accepted.extra.memo).split("-");
    return Number(readAt) < Date.now() / 1_000 - 30 && signed;
  });
  const landed = cluster.landed.length;
  const answer = await send(payment, "late");
  expect(answer).toMatchObject({ status: 402, charged: false });
  expect(landedAtRun.has("late")).toBe(false);
  expect(cluster.landed.length).toBe(landed);
});
