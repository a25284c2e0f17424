import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { type JobCall, LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { eventually } from "../helpers/eventually.ts";
import type { Fault } from "../helpers/fault.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { startPostgresPair } from "../helpers/postgres-standby.ts";
import { makeRunnerClient, type RunnerClient } from "../helpers/runner-client.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import {
  LEASE,
  type LeaseOp,
  PAYMENT,
  type PaymentOp,
  queueLosses,
  requireLinearizable,
} from "./histories.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";
import { type Replica, startReplica, startRoamingRunner } from "./replicas.ts";

/** How long replicas are killed, stopped and lied to about the time, and their database hangs. */
const FAULTS_SECS = Number(process.env.JOBGATE_HISTORY_SECS ?? 10);
/** All that follows takes as long as in a short run. */
const TIMEOUT_MS = FAULTS_SECS * 1_000 + 1_800_000;
const PAYERS = 8;
const SENDERS = 4;
const BETWEEN_WEBHOOKS_MS = 10;
const BETWEEN_FAULTS_MS = 300;
const LEASE_SECS = 1;
const AUTHORIZATION_SECS = 15;
const HOUR_MS = 3_600_000;
/** Longer than replicas wait for an answer to a COMMIT. */
const HANG_MS = 6_000;
/** Times that the primary waits for its standby, before it is killed and the standby takes its place. */
const HANGS = Math.ceil(FAULTS_SECS / 30);
const CLOCKS_MS = [HOUR_MS, -HOUR_MS, 90_000, 24 * HOUR_MS, -5_000, 0];
const never = Number.POSITIVE_INFINITY;
const now = () => performance.now();

const parts = startBeforeAll(startPaidParts);
const postgres = startBeforeAll(startPostgresPair);
/** Settles every second payment late, when its replica may be gone. */
const facilitator = startBeforeAll(async () => {
  const proxy = await startFaultProxy({ target: parts.facilitator.url });
  let settles = 0;
  const fault = (): Fault => (settles++ % 2 > 0 ? { kind: "pass" } : { kind: "delay-request", ms: 3_000 });
  proxy.add({ path: "/settle", fault });
  return proxy;
});
const shop = startBeforeAll(async () => {
  const options = { leaseSecs: LEASE_SECS, facilitatorUrl: facilitator.url };
  const replicas = await Promise.all([0, 1, 2].map(() => startReplica(parts, postgres.url, options)));
  return { replicas, stop: () => Promise.all(replicas.map((replica) => replica.stop())) };
});

/** Histories of payments and leases, and bodies of acknowledged calls. */
const payments = new Map<string, PaymentOp[]>();
const leases = new Map<string, LeaseOp[]>();
const acknowledged = new Map<number, string>();
const unknown = new Set<string>();
const delivered: { readonly callId: number; readonly body: string }[] = [];

let turns = 0;
const replica = (number: number) => shop.replicas[number % shop.replicas.length] as Replica;
const nextReplica = () => replica(turns++);

function acknowledge(callId: number, body: string): void {
  const earlier = acknowledged.get(callId) ?? body;
  if (earlier !== body) throw new Error(`call ${callId} was given to ${earlier} and to ${body}`);
  acknowledged.set(callId, body);
}

async function post(url: string, body: string, headers: Readonly<Record<string, string>> = {}) {
  try {
    const response = await fetch(url, { method: "POST", body, headers, signal: AbortSignal.timeout(10_000) });
    const answer = (await response.json()) as {
      call_id: number;
      code?: string;
      charged?: boolean | "unknown";
    };
    return { ...answer, status: response.status };
  } catch {
    return undefined;
  }
}

async function sendWebhooks(sender: number, over: AbortSignal): Promise<void> {
  for (let number = 0; !over.aborted; number++) {
    const body = `webhook ${number} of ${sender}`;
    const answer = await post(nextReplica().hookUrl, body);
    if (answer?.status === 202) acknowledge(answer.call_id, body);
    else unknown.add(body);
    await sleep(BETWEEN_WEBHOOKS_MS);
  }
}

type BuyOp = Extract<PaymentOp, { kind: "buy" }>;

function outcomeOf(answer: Awaited<ReturnType<typeof post>>): BuyOp["outcome"] {
  if (answer === undefined) return undefined;
  const { status, code, charged, call_id: callId } = answer;
  if (status === 202) return { callId };
  if (status >= 500 || charged !== false) return undefined;
  return code === "settlement_failed" ? "failed" : "refused";
}

/** Pays at any replica. @returns the new operation */
async function buy(body: string, headers: Readonly<Record<string, string>>): Promise<BuyOp> {
  const from = now();
  const answer = await post(nextReplica().x402Url, body, headers);
  const outcome = outcomeOf(answer);
  const told = `${answer?.status} ${answer?.code}`;
  const op: BuyOp = outcome
    ? { from, to: now(), kind: "buy", answer: told, outcome }
    : { from, to: never, kind: "buy", answer: told };
  if (typeof outcome === "object") acknowledge(outcome.callId, body);
  payments.get(body)?.push(op);
  return op;
}

/** Two clients send each payment until it is decided, at whichever replica answers. */
async function makePayments(payer: number, over: AbortSignal): Promise<void> {
  for (let number = 0; !over.aborted; number++) {
    const offer = await eventually(() => requestOffer(nextReplica().x402Url));
    const nowSecs = Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000));
    const { headers } = await signV2Payment({
      offer: offer.v2,
      account: accounts.payer,
      authorization: { validBefore: String(nowSecs + AUTHORIZATION_SECS) },
    });
    const body = `payment ${number} of ${payer}`;
    payments.set(body, []);
    const untilDecided = async () => {
      let refusals = 0;
      const isDecided = async () => {
        const { outcome } = await buy(body, headers);
        // Only a replica with another clock may have refused it.
        if (outcome === "refused") refusals++;
        return typeof outcome === "object" || outcome === "failed" || refusals === 4;
      };
      await expect.poll(isDecided, { interval: 100 }).toBe(true);
    };
    await Promise.all([untilDecided(), untilDecided()]);
  }
}

const STATUS = {
  [LeaseStatus.DONE]: "done",
  [LeaseStatus.LEASE_LOST]: "lost",
  [LeaseStatus.NOT_FOUND]: "not found",
} as const;
const runnerClients = new Map<Replica, RunnerClient>();
const underWay = new Set<Promise<unknown>>();

/** Asks any replica about a lease. */
async function ask(kind: "ack" | "nack" | "extend", { callId, leaseToken: token }: JobCall): Promise<void> {
  const lease = { callId, leaseToken: token };
  const outcome = { case: "retry", value: { reason: "again" } } as const;
  const replica = nextReplica();
  const client = runnerClients.get(replica) ?? makeRunnerClient({ address: replica.runnerAddress });
  runnerClients.set(replica, client);
  const from = now();
  const asked = {
    ack: () => client.ack({ acks: [lease] }),
    nack: () => client.nack({ nacks: [{ ...lease, outcome }] }),
    extend: () => client.extend({ leases: [lease] }),
  }[kind]();
  const { statuses } = await asked.catch(() => ({ statuses: [] }));
  const status = STATUS[statuses[0] as keyof typeof STATUS];
  const op: LeaseOp = status ? { from, to: now(), kind, token, status } : { from, to: never, kind, token };
  leases.get(String(callId))?.push(op);
}

/** Works on one delivery, well or badly. It acks by itself, so the library around it never does. */
async function work(call: JobCall): Promise<void> {
  const turn = delivered.length % 10;
  await ask("extend", call);
  if (turn === 0) await Promise.all([ask("ack", call), ask("ack", call)]);
  else if (turn === 1) await ask("nack", call);
  else if (turn === 2) await sleep(LEASE_SECS * 1_000 + 200);
  if (turn !== 3) await ask("ack", call);
}

function onCall(call: JobCall): Promise<never> {
  const [callId, body] = [Number(call.callId), Buffer.from(call.body).toString()];
  delivered.push({ callId, body });
  payments.get(body)?.push({ from: now(), to: now(), kind: "delivered", callId });
  const history = leases.get(String(callId)) ?? [];
  leases.set(String(callId), history);
  // It was claimed at any time before it came.
  history.push({ from: 0, to: now(), kind: "claim", token: call.leaseToken, attempt: call.attempt });
  const working = work(call);
  underWay.add(working);
  void working.finally(() => underWay.delete(working));
  return new Promise(() => {});
}

/**
 * Kills, stops and misleads one replica after the other. Between that the primary hangs until the standby answers, and once
 * it is replaced. @returns how often each was done
 */
async function causeFaults() {
  const faults = { kills: 0, stops: 0, clocks: 0, hangs: 0, failOvers: 0 };
  const end = now() + FAULTS_SECS * 1_000;
  for (let round = 0; faults.failOvers === 0 || faults.kills < 3 || now() < end; round++) {
    const target = replica(round + Math.floor(round / 4));
    if (round % 4 === 0) {
      await target.setClock(CLOCKS_MS[faults.clocks++ % CLOCKS_MS.length] as number);
    } else if (round % 4 === 2 && faults.hangs < HANGS) {
      faults.hangs++;
      await postgres.standby.freeze(() => sleep(HANG_MS));
    } else if (round % 4 === 2 && faults.failOvers === 0) {
      faults.failOvers++;
      await postgres.killPrimary();
      await postgres.standby.promote();
    } else if (round % 4 === 1) {
      faults.stops++;
      // Longer than a lease.
      await target.freeze(() => sleep(LEASE_SECS * 1_500));
    } else {
      faults.kills++;
      await target.crash();
    }
    await sleep(BETWEEN_FAULTS_MS);
  }
  await Promise.all(shop.replicas.map((replica) => replica.setClock(0)));
  return faults;
}

async function totals(): Promise<unknown> {
  const url = `${replica(0).operatorUrl}/jobgate.v1.OperatorService/GetTotals`;
  const headers = { "content-type": "application/json" };
  return (await fetch(url, { method: "POST", headers, body: "{}" })).json();
}

it(
  "Three replicas that are killed, stopped and told wrong times, on a Postgres that hangs and fails over, answer as one: each payment buys one job, each lease has one holder, and the queue loses nothing",
  async () => {
    const before = await parts.usdc.balanceOf(accounts.payTo.address);
    const over = new AbortController();
    // The chain's time goes on without payments.
    const mining = setInterval(() => void parts.anvil.client.mine({ blocks: 1 }), 1_000);
    const runners = [0, 1].map((first) => startRoamingRunner(shop.replicas, first, onCall));
    const clients = Promise.all([
      ...Array.from({ length: SENDERS }, (_, sender) => sendWebhooks(sender, over.signal)),
      ...Array.from({ length: PAYERS }, (_, payer) => makePayments(payer, over.signal)),
    ]);
    const faults = await causeFaults().finally(() => over.abort());
    await clients;
    const empty = { ready: "0", leased: "0", held: "0", dead: "0" };
    await expect.poll(totals, { interval: 200 }).toMatchObject({ balanced: true, calls: empty });
    clearInterval(mining);
    await Promise.all(runners.map((runner) => runner.stop()));
    await Promise.all(underWay);
    for (const client of runnerClients.values()) client.close();

    requireLinearizable(payments, PAYMENT);
    requireLinearizable(leases, LEASE);
    const { lost, unexpected, ...counts } = queueLosses({ acknowledged, unknown, delivered });
    expect({ lost, unexpected }).toEqual({ lost: [], unexpected: [] });
    const paid = [...acknowledged.values()].filter((body) => payments.has(body)).length;
    expect((await parts.usdc.balanceOf(accounts.payTo.address)) - before).toBe(BigInt(paid) * AMOUNT);
    const operations = [...payments.values(), ...leases.values()].flat().length;
    console.log({ ...faults, operations, payments: payments.size, paid, calls: leases.size, ...counts });
  },
  TIMEOUT_MS,
);
