import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { startPostgresProxy } from "../helpers/postgres-proxy.ts";
import { type SynchronousStandby, startSynchronousStandby } from "../helpers/postgres-standby.ts";
import { startRunner } from "../helpers/runner.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";
import { type Replica, startReplica } from "./replicas.ts";

const SENDERS = 8;
/** Limit of the time until `/readyz` answers 503. */
const NOTICED_MS = 6_000;
/** Limit of the time until a request is answered. */
const ANSWERED_MS = 10_000;
/** Requests that are sent while the store is known to be unwritable. */
const REFUSED = 200;
const REFUSED_MS = 3_000;
/** Lists that the operator asks for at once meanwhile. */
const LISTS = 20;
const AUTHORIZATION_SECS = 15;
/** Pauses of clients that send again. */
const AFTER_REFUSAL_MS = 50;
const BEFORE_RESEND_MS = 200;

interface Answer {
  readonly body: string;
  readonly status: number;
  readonly callId: number;
  readonly charged: unknown;
  readonly sentAt: number;
  readonly tookMs: number;
}

let parts: PaidParts;
let postgres: Postgres;
let storeUrl: string;

beforeAll(async () => {
  [parts, postgres] = await Promise.all([startPaidParts(), startPostgres()]);
  storeUrl = await postgres.createDatabase();
});
afterAll(async () => {
  await postgres?.stop();
  await parts?.stop();
});

/** A gateway with a runner, and the answers that its senders got. */
async function startSite(url: string) {
  const replica: Replica = await startReplica(parts, url);
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
      const senders = Promise.all(Array.from({ length: SENDERS }, (_, name) => sender(name)));
      return async () => {
        isOver = true;
        await senders;
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
type Site = Awaited<ReturnType<typeof startSite>>;

/** While the store is known to be unwritable, requests are refused at once. */
async function expectRefusals({ answers }: Site): Promise<void> {
  const knownAt = performance.now();
  const late = () => answers.filter(({ sentAt }) => sentAt >= knownAt);
  await expect.poll(() => late().length).toBeGreaterThan(REFUSED);
  for (const { status, tookMs } of late()) {
    expect(status).toBe(503);
    expect(tookMs).toBeLessThan(REFUSED_MS);
  }
}

/** Each call that was promised ran once, no request ran twice, and each payment was charged once. */
async function expectAllOnce(site: Site, paid: readonly Answer[], earned: bigint): Promise<void> {
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
async function payAgain(site: Site, body: string, first: () => Promise<Answer>): Promise<Answer> {
  let send = first;
  let last: Answer | undefined;
  for (let tries = 0; tries < 300; tries++) {
    last = await send();
    if (last.status === 202) return last;
    if (last.status === 402) send = await site.sign(body);
    // The chain's time continues without payments.
    await parts.anvil.client.mine({ blocks: 1 });
    await sleep(BEFORE_RESEND_MS);
  }
  throw new Error("the payment was not decided", { cause: last });
}

const balance = () => parts.usdc.balanceOf(accounts.payTo.address);

describe("A synchronous standby that hangs", () => {
  let standby: SynchronousStandby;
  beforeAll(async () => {
    standby = await startSynchronousStandby(postgres, storeUrl);
  });
  afterAll(async () => {
    await postgres.query(storeUrl, "ALTER SYSTEM RESET synchronous_standby_names");
    await postgres.query(storeUrl, "SELECT pg_reload_conf()");
    await standby?.stop();
  });

  test("/readyz answers 503, requests are answered, and afterwards nothing is lost or doubled", async () => {
    const site = await startSite(storeUrl);
    const before = await balance();
    const send = await site.sign("payment");
    const waiting = () =>
      postgres.query(
        storeUrl,
        "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND lower(query) = 'commit'",
      );
    const { paid, endLoad } = await standby.freeze(async () => {
      const payment = send();
      await expect.poll(waiting).not.toEqual([]);
      const endLoad = site.startLoad();
      expect(await site.becomes(503, 60_000)).toBeLessThan(NOTICED_MS);
      await expectRefusals(site);
      const paid = await payment;
      return { paid, endLoad };
    });
    expect(paid).toMatchObject({ status: 503, charged: "unknown" });
    expect(paid.tookMs).toBeLessThan(ANSWERED_MS);
    await site.becomes(200, 60_000);
    await site.accepted(50);
    await endLoad();
    for (const { tookMs } of site.answers) expect(tookMs).toBeLessThan(ANSWERED_MS);
    await expectAllOnce(site, [await payAgain(site, "payment", send)], (await balance()) - before);
  });
});

describe("A network that swallows the packets to and from Postgres", () => {
  test("/readyz answers 503, requests are answered, and afterwards nothing is lost or doubled", async () => {
    const proxy = await startPostgresProxy(postgres.port);
    onTestFinished(() => proxy.stop());
    const site = await startSite(proxy.urlOf(storeUrl));
    const before = await balance();
    const send = await site.sign("payment 2");
    const endLoad = site.startLoad();
    await site.accepted(50);
    proxy.setStalled(true);
    const payment = send();
    expect(await site.becomes(503, 60_000)).toBeLessThan(NOTICED_MS);
    await expectRefusals(site);
    const lists = await Promise.all(Array.from({ length: LISTS }, () => site.listPayments()));
    for (const { status, tookMs } of lists) {
      expect(status).toBe(503);
      expect(tookMs).toBeLessThan(ANSWERED_MS);
    }
    const paid = await payment;
    expect(paid.status).toBe(503);
    expect(paid.tookMs).toBeLessThan(ANSWERED_MS);
    proxy.setStalled(false);
    await site.becomes(200, 60_000);
    await site.accepted(50);
    await endLoad();
    for (const { tookMs } of site.answers) expect(tookMs).toBeLessThan(ANSWERED_MS);
    await expectAllOnce(site, [await payAgain(site, "payment 2", send)], (await balance()) - before);
  });
});
