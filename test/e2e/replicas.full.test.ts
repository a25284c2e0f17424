import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { eventually } from "../helpers/eventually.ts";
import { howMany } from "../helpers/how-many.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";
import { type Replica, type RoamingRunner, startReplica, startRoamingRunner } from "./replicas.ts";

const REPLICAS = 3;
const WEBHOOKS = howMany(1_500, 20_000);
const SENDERS = 16;
const PAYMENTS = howMany(25, 200);
const PAYERS = 4;
const BETWEEN_CRASHES_MS = 1_500;
const POSTGRES_DOWN_MS = 300;
const REQUEST_TIMEOUT_MS = 20_000;
/** Pause of a client that no replica accepted. */
const BEFORE_RETRY_MS = 100;
/** On a busy machine replicas and Postgres take half a minute to start again, and a full queue to empty. */
const ACCEPTED_WITHIN_MS = 180_000;
const AUTHORIZATION_SECS = 15;

let parts: PaidParts;
let postgres: Postgres;
let replicas: Replica[];
let runners: RoamingRunner[];
/** Bodies that runners got, by call id. */
const delivered = new Map<number, string>();

beforeAll(async () => {
  [parts, postgres] = await Promise.all([startPaidParts(), startPostgres()]);
  const storeUrl = await postgres.createDatabase();
  // All at once: they agree on who makes the tables.
  replicas = await Promise.all(Array.from({ length: REPLICAS }, () => startReplica(parts, storeUrl)));
  runners = [0, 1].map((first) =>
    startRoamingRunner(replicas, first, ({ callId, body }) => {
      delivered.set(Number(callId), Buffer.from(body).toString());
    }),
  );
});
afterAll(async () => {
  await Promise.all((runners ?? []).map((runner) => runner.stop()));
  await Promise.all((replicas ?? []).map((replica) => replica.stop()));
  await postgres?.stop();
  await parts?.stop();
});

const replica = (number: number) => replicas[number % REPLICAS] as Replica;

/** Sends to one replica after the other until one answers 202. Gives the call id; undefined when it answers 402. */
async function post(
  urlOf: (replica: Replica) => string,
  first: number,
  init: { body: string; headers?: Readonly<Record<string, string>> },
): Promise<number | undefined> {
  let last: unknown;
  const endsAt = performance.now() + ACCEPTED_WITHIN_MS;
  for (let attempt = 0; performance.now() < endsAt; attempt++) {
    try {
      const response = await fetch(urlOf(replica(first + attempt)), {
        method: "POST",
        ...init,
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      });
      const answer = (await response.json()) as { call_id: number };
      if (response.status === 202) return answer.call_id;
      if (response.status === 402) return undefined;
      last = answer;
      if (response.status < 500) break;
    } catch (error) {
      last = error;
    }
    await sleep(BEFORE_RETRY_MS);
  }
  const why = last instanceof Error ? `${last}: ${last.cause}` : JSON.stringify(last);
  throw new Error(`no replica accepted ${init.body}: ${why}`, { cause: last });
}

/** Sends all webhooks from several connections. Gives the body of each call id that was answered. */
async function sendWebhooks(): Promise<Map<number, string>> {
  const accepted = new Map<number, string>();
  let next = 0;
  const sender = async () => {
    while (next < WEBHOOKS) {
      const number = next++;
      const body = `webhook ${number}`;
      const callId = await post(({ hookUrl }) => hookUrl, number, { body });
      if (callId === undefined || accepted.has(callId)) throw new Error(`call ${callId} was given twice`);
      accepted.set(callId, body);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return accepted;
}

/**
 * Signs payments at one replica, and pays at whichever answers: a payment is sent again until it is decided. The last one
 * is made once `allWereKilled`.
 */
async function makePayments(allWereKilled: Promise<void>): Promise<Map<number, string>> {
  const paid = new Map<number, string>();
  let next = 0;
  const payer = async () => {
    while (next < PAYMENTS) {
      const number = next++;
      if (number === PAYMENTS - 1) await allWereKilled;
      const body = `payment ${number}`;
      paid.set(await pay(number, body), body);
    }
  };
  await Promise.all(Array.from({ length: PAYERS }, payer));
  return paid;
}

/**
 * A payment that a crash left between the journal and the facilitator is certainly not made once its authorization has
 * run out: then the client signs another.
 */
async function pay(number: number, body: string): Promise<number> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const offer = await offerFrom(number);
    const nowSecs = Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000));
    const validBefore = String(nowSecs + AUTHORIZATION_SECS);
    const { headers } = await signV2Payment({
      offer,
      account: accounts.payer,
      authorization: { validBefore },
    });
    const callId = await post(({ x402Url }) => x402Url, number, { body, headers });
    if (callId !== undefined) return callId;
  }
  throw new Error(`${body} could not be paid`);
}

function offerFrom(first: number) {
  let next = first;
  return eventually(async () => (await requestOffer(replica(next++).x402Url)).v2);
}

/** Kills one part after the other until stopped. Returns how often each was killed. */
async function causeCrashes(
  done: AbortSignal,
  onAllKilled: () => void,
): Promise<Record<"replica" | "runner" | "postgres", number>> {
  const crashes = { replica: 0, runner: 0, postgres: 0 };
  for (let round = 0; !done.aborted; round++) {
    await sleep(BETWEEN_CRASHES_MS);
    const turn = round % 4;
    if (turn === 0 || turn === 2) {
      await replica(crashes.replica++).crash();
    } else if (turn === 1) {
      runners[crashes.runner++ % runners.length]?.crash();
    } else {
      await postgres.kill(crashes.postgres++ % 2 === 0 ? "SIGKILL" : "SIGINT");
      await sleep(POSTGRES_DOWN_MS);
      await postgres.start();
      onAllKilled();
    }
  }
  return crashes;
}

async function totals() {
  const response = await fetch(`${replica(0).operatorUrl}/jobgate.v1.OperatorService/GetTotals`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  return (await response.json()) as {
    balanced: boolean;
    payments: Record<string, number | string>;
    calls: Record<string, number | string>;
    paid_calls: Record<string, number | string>;
  };
}

describe("Three replicas on one Postgres, with two runners", () => {
  it(`${WEBHOOKS} webhooks and ${PAYMENTS} payments while every process is killed in turn: all delivered, none twice, the journal balances`, async () => {
    const before = await parts.usdc.balanceOf(accounts.payTo.address);
    const over = new AbortController();
    // The chain's time continues without payments.
    const mining = setInterval(() => void parts.anvil.client.mine({ blocks: 1 }), 1_000);
    let onAllKilled = (): void => undefined;
    const allWereKilled = new Promise<void>((resolve) => {
      onAllKilled = resolve;
    });
    const crashing = causeCrashes(over.signal, onAllKilled);
    const sending = Promise.all([sendWebhooks(), makePayments(allWereKilled)]);
    const [webhooks, payments] = await sending.finally(() => over.abort());
    const crashes = await crashing;
    clearInterval(mining);
    console.log("killed:", crashes);
    expect(Math.min(...Object.values(crashes))).toBeGreaterThan(0);

    expect(webhooks.size).toBe(WEBHOOKS);
    expect(payments.size).toBe(PAYMENTS);
    const promised = new Map([...webhooks, ...payments]);
    expect(promised.size).toBe(WEBHOOKS + PAYMENTS);
    await expect
      .poll(() => [...promised.keys()].filter((callId) => !delivered.has(callId)).length, {
        interval: 500,
      })
      .toBe(0);
    for (const [callId, body] of promised) expect(delivered.get(callId)).toBe(body);
    const paidFor = [...delivered.values()].filter((body) => body.startsWith("payment "));
    expect(paidFor.sort()).toEqual([...payments.values()].sort());

    await expect.poll(totals, { interval: 500 }).toMatchObject({
      balanced: true,
      payments: { settled: String(PAYMENTS) },
      paid_calls: { done: String(PAYMENTS) },
      calls: { ready: "0", leased: "0", held: "0", dead: "0" },
    });
    expect((await parts.usdc.balanceOf(accounts.payTo.address)) - before).toBe(BigInt(PAYMENTS) * AMOUNT);
  });
});
