import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { startRunner } from "../helpers/runner.ts";
import { AMOUNT, type PaidParts } from "./paid-parts.ts";
import { type Replica, startReplica } from "./replicas.ts";

const SENDERS = 8;
/** Clients of a site that loses its primary. */
const SENDERS_TO_ENDURE = 16;
const PAYERS_TO_ENDURE = 8;
/** Limit of the time until `/readyz` answers 503. */
const NOTICED_MS = 6_000;
/** Limit of the time from which another server takes writes until a webhook is accepted. */
const RESUMED_MS = 5_000;
const AUTHORIZATION_SECS = 15;
/** Pauses of clients that send again. */
const AFTER_REFUSAL_MS = 50;
const BEFORE_RESEND_MS = 200;

export interface Answer {
  readonly body: string;
  readonly status: number;
  readonly callId: number;
  readonly charged: unknown;
  readonly sentAt: number;
  readonly tookMs: number;
}

/** A gateway with a runner, and the answers that its senders got. */
export async function startSite(
  parts: PaidParts,
  url: string,
  { senders = SENDERS, listen = true }: { senders?: number; listen?: boolean } = {},
) {
  const replica: Replica = await startReplica(parts, url, { listen });
  const runner = await startRunner({ address: replica.runnerAddress });
  onTestFinished(async () => {
    runner.kill();
    await replica.stop();
  });
  const { v2: offer } = await requestOffer(replica.x402Url);
  const answers: Answer[] = [];

  async function post(url: string, body: string, headers: Readonly<Record<string, string>> = {}) {
    const sentAt = performance.now();
    const response = await fetch(url, { method: "POST", body, headers, signal: AbortSignal.timeout(60_000) });
    const answer = (await response.json()) as { call_id: number; charged?: unknown };
    const tookMs = performance.now() - sentAt;
    return { body, status: response.status, callId: answer.call_id, charged: answer.charged, sentAt, tookMs };
  }

  let isOver = false;
  const sender = async (name: number) => {
    for (let number = 1; !isOver; number++) {
      const answer = await post(replica.hookUrl, `webhook ${name} ${number}`);
      answers.push(answer);
      if (answer.status !== 202) await sleep(AFTER_REFUSAL_MS);
    }
  };
  const readyz = async () => (await fetch(`${replica.operatorUrl}/readyz`)).status;
  return {
    runner,
    answers,
    parts,
    readyz,
    /** Asks for a list as the operator's page does, and gives the time until the answer. */
    async listPayments() {
      const sentAt = performance.now();
      const response = await fetch(`${replica.operatorUrl}/jobgate.v1.OperatorService/ListPayments`, {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/json" },
        signal: AbortSignal.timeout(60_000),
      });
      await response.text();
      return { status: response.status, tookMs: performance.now() - sentAt };
    },
    /** Starts senders of webhooks; the returned function stops them. */
    startLoad() {
      const sending = Promise.all(Array.from({ length: senders }, (_, name) => sender(name)));
      return async () => {
        isOver = true;
        await sending;
      };
    },
    /** Returns a way to send one payment, any number of times. */
    async sign(body: string) {
      const nowSecs = Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000));
      const authorization = { validBefore: String(nowSecs + AUTHORIZATION_SECS) };
      const { headers } = await signV2Payment({ offer, account: accounts.payer, authorization });
      return () => post(replica.x402Url, body, headers);
    },
    async accepted(count: number) {
      const more = answers.length + count;
      await expect.poll(() => answers.slice(-count).every(({ status }) => status === 202)).toBe(true);
      await expect.poll(() => answers.length).toBeGreaterThan(more);
    },
    /** Waits until `/readyz` says so, and gives the time that it took. */
    async becomes(status: 200 | 503, timeout: number) {
      const startedAt = performance.now();
      await expect.poll(readyz, { timeout, interval: 50 }).toBe(status);
      return performance.now() - startedAt;
    },
  };
}
export type Site = Awaited<ReturnType<typeof startSite>>;

/** Each call that was promised ran once, no request ran twice, and each payment was charged once. */
export async function expectAllOnce(site: Site, paid: readonly Answer[], earned: bigint): Promise<void> {
  const { answers, runner } = site;
  const promised = [...answers, ...paid].filter(({ status }) => status === 202);
  const ran = () =>
    new Map(runner.calls.map(({ callId, body }) => [Number(callId), Buffer.from(body).toString()]));
  await expect.poll(() => promised.filter(({ callId }) => !ran().has(callId))).toEqual([]);
  for (const { callId, body } of promised) expect(ran().get(callId)).toBe(body);
  const bodies = [...ran().values()];
  expect(new Set(bodies).size).toBe(bodies.length);
  expect(earned).toBe(BigInt(paid.length) * AMOUNT);
}

/**
 * Sends a payment again until it is decided. A payment that went no further than the journal is certainly not made once its
 * authorization has run out: then another is signed.
 */
export async function payAgain(site: Site, body: string, first: () => Promise<Answer>): Promise<Answer> {
  let send = first;
  let last: Answer | undefined;
  for (let tries = 0; tries < 300; tries++) {
    last = await send();
    if (last.status === 202) return last;
    if (last.status === 402) send = await site.sign(body);
    // The chain's time continues without payments.
    await site.parts.anvil.client.mine({ blocks: 1 });
    await sleep(BEFORE_RESEND_MS);
  }
  throw new Error("the payment was not decided", { cause: last });
}

/** Starts payers; each pays again and again, until the returned function stops them and gives what was paid. */
function startPayers(site: Site, round: string): () => Promise<Answer[]> {
  let isOver = false;
  const paid: Answer[] = [];
  const payer = async (name: number) => {
    for (let number = 1; !isOver; number++) {
      const body = `payment ${round} ${name} ${number}`;
      paid.push(await payAgain(site, body, await site.sign(body)));
    }
  };
  const paying = Promise.all(Array.from({ length: PAYERS_TO_ENDURE }, (_, name) => payer(name)));
  return async () => {
    isOver = true;
    await paying;
    return paid;
  };
}

/** Lets a site lose its primary under load and get another one, and checks what was promised. */
export async function withoutItsPrimary({
  parts,
  url,
  round,
  listen = true,
  isNoticed = true,
  takeAway,
  replacePrimary,
}: {
  readonly parts: PaidParts;
  /** Lists both servers. */
  readonly url: string;
  readonly round: string;
  /** False if the URL leads through a pooler. Default true. */
  readonly listen?: boolean;
  /** True if `/readyz` answers 503 in between, which a planned exchange can be too short for. Default true. */
  readonly isNoticed?: boolean;
  takeAway(): Promise<void> | void;
  /** Resolves once another server takes writes. */
  replacePrimary(): Promise<void>;
}): Promise<void> {
  const site = await startSite(parts, url, { senders: SENDERS_TO_ENDURE, listen });
  const balance = () => parts.usdc.balanceOf(accounts.payTo.address);
  const before = await balance();
  const endPaying = startPayers(site, round);
  const endLoad = site.startLoad();
  await site.accepted(100);
  await takeAway();
  if (isNoticed) expect(await site.becomes(503, 60_000)).toBeLessThan(NOTICED_MS);
  await replacePrimary();
  const replacedAt = performance.now();
  const resumed = () => site.answers.some(({ status, sentAt }) => status === 202 && sentAt > replacedAt);
  await expect.poll(resumed, { interval: 20 }).toBe(true);
  const resumedMs = Math.round(performance.now() - replacedAt);
  console.info(`${round}: writes resumed ${resumedMs} ms after another server took them`);
  expect(resumedMs).toBeLessThan(RESUMED_MS);
  await site.becomes(200, RESUMED_MS);
  await site.accepted(100);
  const paid = await endPaying();
  await endLoad();
  await expectAllOnce(site, paid, (await balance()) - before);
}
