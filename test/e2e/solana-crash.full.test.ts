import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { getBase58Decoder } from "@solana/kit";
import type { PaymentPayload } from "@x402/core/types";
import { expect, it, onTestFinished } from "vitest";
import type { Fault } from "../helpers/fault.ts";
import { howMany } from "../helpers/how-many.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { type Runner, startRunner } from "../helpers/runner.ts";
import { randomFrom } from "../helpers/seeded-random.ts";
import { SOLANA_NETWORK } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { type Answer, PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { SALE_CRASHES } from "./crash-rounds.ts";
import { type Journal, openJournal } from "./journal.ts";
import { openPostgresJournal } from "./postgres-journal.ts";

const SEED = 23;
const ROUNDS = Number(process.env.JOBGATE_SOLANA_CRASH_ROUNDS ?? howMany(12, 24));
/** Further rounds until each point was reached and each fault happened: what a round sends may be refused before. */
const MORE_ROUNDS = 24;
const PAYMENTS_PER_ROUND = Number(process.env.JOBGATE_SOLANA_CRASH_PAYMENTS ?? 5);
const POINTS = [...SALE_CRASHES.filter((crash) => crash !== "during settle"), "before-ack"] as const;
/** Slots by which finalized blocks are behind. A blockhash ends while they are 200 behind. */
const LAGS = [0, 30, 200];
/** Bound of a round whose payments are all refused before they get to its point. */
const POINT_WITHIN_MS = 60_000;
/** A payment that no block has is decided 90 s after it began. */
const DECIDED_WITHIN_MS = 200_000;

interface Sent {
  readonly payment: PaymentPayload;
  readonly body: string;
  /** Undefined while it is not known what became of the payment. */
  answer?: Answer;
}

interface Site {
  /** Default: a SQLite file. */
  readonly storeUrl?: string;
  /** Gateways that share the store. */
  readonly replicas: number;
  openJournal(folder: string): Journal | Promise<Journal>;
}

const parts = startBeforeAll(startSolanaParts);
const postgres = startBeforeAll(startPostgres);
const random = randomFrom(SEED);
const oneOf = <Item>(items: readonly Item[]): Item => items[random(items.length)] as Item;

/** Answers to a settlement. After the last two, nothing moved. */
const faults: Readonly<Record<string, () => Fault>> = {
  none: () => ({ kind: "pass" }),
  cut: () => ({ kind: "lose-answer" }),
  late: () => ({ kind: "delay-answer", ms: 3_000 }),
  refused: () => ({
    kind: "change",
    change: (answer) => ({ ...answer, body: Buffer.from(settlement({ success: false, transaction: "" })) }),
  }),
  "of no transaction": () => succeed(getBase58Decoder().decode(randomBytes(64))),
  "of another payment": () => succeed(parts.cluster.landed.at(-1)?.signature ?? ""),
};

const succeed = (transaction: string): Fault => ({
  kind: "answer",
  status: 200,
  body: JSON.parse(settlement({ success: true, transaction })),
});

const settlement = (answer: { readonly success: boolean; readonly transaction: string }) =>
  JSON.stringify({
    ...answer,
    ...(answer.success ? {} : { errorReason: "duplicate_settlement" }),
    network: SOLANA_NETWORK,
    payer: parts.payer,
  });

const PROMISE =
  "Payments on Solana have one job each, and only if they moved, whatever is killed or answers wrongly";

it(`${PROMISE}: SQLite`, () =>
  payThroughCrashes({ replicas: 1, openJournal: (folder) => openJournal(join(folder, "jobgate.db")) }));

it(`${PROMISE}: two gateways on one Postgres`, async () => {
  const storeUrl = await postgres.createDatabase();
  await payThroughCrashes({ storeUrl, replicas: 2, openJournal: () => openPostgresJournal(storeUrl) });
});

async function payThroughCrashes({ storeUrl, replicas, openJournal }: Site): Promise<void> {
  const { cluster, mint, payer, seller } = parts;
  await cluster.fund(payer, mint, PRICE * BigInt(2 * (ROUNDS + MORE_ROUNDS) * PAYMENTS_PER_ROUND));
  const [alreadyLanded, received = 0n] = [cluster.landed.length, await cluster.balanceOf(seller, mint)];
  const folder = await mkdtemp(join(tmpdir(), "jobgate-solana-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const slots = setInterval(() => cluster.passSlots(1), 200);
  onTestFinished(() => clearInterval(slots));

  let config = "";
  const lives: (Jobgate | undefined)[] = new Array(replicas).fill(undefined);
  /** The gateway that all requests go to; undefined if they go to any. */
  let only: number | undefined;
  const alive = () =>
    only === undefined ? oneOf(lives.filter((life) => life !== undefined)) : (lives[only] as Jobgate);
  const current = new Proxy({} as Jobgate, { get: (_, name) => Reflect.get(alive(), name) });
  const struck = new Set<string>();
  const shop = await startSolanaShop(parts, {
    async start(options) {
      const [, target = ""] = /^url = "(http.*)"/m.exec(options.config) ?? [];
      const strike = (): Fault => {
        const name = random(3) === 0 ? "none" : oneOf(Object.keys(faults));
        struck.add(name);
        return faults[name]?.() as Fault;
      };
      const proxy = await startFaultProxy({ target, rules: [{ path: "/settle", fault: strike }] });
      onTestFinished(proxy.stop);
      config = options.config
        .replace(target, proxy.url)
        .replace("sqlite:jobgate.db", storeUrl ?? "sqlite:jobgate.db")
        .replace("timeout_secs = 5", "timeout_secs = 2")
        .replace("[runner]", "[runner]\nretry_base_secs = 0.05\nlease_secs = 1\nmax_attempts = 100");
      lives[0] = await startJobgate({ config, folder });
      return current;
    },
  });
  onTestFinished(async () => {
    await shop.stop();
    await Promise.all(lives.flatMap((life) => life?.stop() ?? []));
  });
  const runners: Runner[] = [shop.runner];
  const runnerOf = [shop.runner];
  const startAgain = async (
    replica: number,
    env: Readonly<Record<string, string>> = {},
  ): Promise<Jobgate> => {
    lives[replica]?.kill("SIGKILL");
    await lives[replica]?.exited;
    runnerOf[replica]?.kill();
    // A payment that is taken up again may reach the point before all listeners are there.
    const life = await startJobgate({ config, folder, env }).catch(() => startJobgate({ config, folder }));
    lives[replica] = life;
    // A fault point may end it before its runner has subscribed.
    await startRunner({ address: life.runnerAddress }).then(
      (runner) => {
        runners.push(runner);
        runnerOf[replica] = runner;
      },
      () => undefined,
    );
    return life;
  };
  for (let replica = 1; replica < replicas; replica++) await startAgain(replica);
  const sent: Sent[] = [];
  const send = async (one: Sent): Promise<void> => {
    const answer = await shop.send(one.payment, one).catch(() => undefined);
    if (answer !== undefined && (answer.status === 202 || answer.charged === false)) one.answer = answer;
  };

  const reached = new Set<string>();
  const isMissing = () => reached.size < POINTS.length || struck.size < Object.keys(faults).length;
  for (let round = 0; round < ROUNDS || (isMissing() && round < ROUNDS + MORE_ROUNDS); round++) {
    const point = round % 2 === 0 ? POINTS[(round / 2) % POINTS.length] : undefined;
    const replica = random(replicas);
    only = point && replica;
    const jobgate = await startAgain(replica, point && { JOBGATE_CRASH_AT: point });
    const unanswered = sent.filter(({ answer }) => answer === undefined);
    cluster.finalizedLag = point === undefined ? oneOf(LAGS) : 0;
    if (random(4) === 0) await shop.restartFacilitator();
    const fresh: Sent[] = [];
    const ended = jobgate.exited.then(() => undefined);
    for (let index = 0; index < PAYMENTS_PER_ROUND; index++) {
      const signed = until(() => shop.sign().catch(() => undefined)).catch(() => undefined);
      // A payment of an earlier round that jobgate takes up again may reach the point before these are signed.
      const payment = await Promise.race([signed, ended]);
      if (payment !== undefined) fresh.push({ payment, body: `${round} ${index}` });
    }
    sent.push(...fresh);
    const sending = Promise.all([...fresh, ...unanswered.slice(-10)].map(send));
    const moment = sleep(point === undefined ? random(3_000) : POINT_WITHIN_MS, "alive", { ref: false });
    const isAtPoint = (await Promise.race([ended, moment])) === undefined;
    if (point !== undefined && isAtPoint) reached.add(point);
    jobgate.kill("SIGKILL");
    await sending;
  }

  only = undefined;
  cluster.finalizedLag = 0;
  for (let replica = 0; replica < replicas; replica++) await startAgain(replica);
  const journal = await openJournal(folder);
  onTestFinished(journal.close);
  await until(
    async () => {
      const { payments } = await journal.totals();
      return payments.intent === 0;
    },
    { waitMs: DECIDED_WITHIN_MS, details: () => alive().logs.slice(-20).join("\n") },
  );
  await Promise.all(
    sent.map((one) =>
      until(
        async () => {
          if (one.answer === undefined) await send(one);
          return one.answer !== undefined;
        },
        { waitMs: DECIDED_WITHIN_MS },
      ),
    ),
  );

  const landed = cluster.landed.slice(alreadyLanded).filter(({ err }) => err === null);
  const moved = sent.filter(({ payment }) =>
    landed.some(({ memo }) => memo?.includes(payment.accepted.extra.memo as string)),
  );
  const idsOf = (body: string) =>
    new Set(
      runners
        .flatMap(({ calls }) => calls)
        .filter((call) => Buffer.from(call.body).toString() === body)
        .map(({ callId }) => Number(callId)),
    );
  await until(async () => (await journal.totals()).paidCalls.done === moved.length).catch(() => undefined);
  const wrong = sent.filter((one) => {
    const hasMoved = moved.includes(one);
    const ids = idsOf(one.body);
    const { status, call_id } = one.answer as Answer;
    return hasMoved
      ? status !== 202 || ids.size !== 1 || !ids.has(Number(call_id))
      : status === 202 || ids.size > 0;
  });
  expect(wrong.map(({ body, answer }) => ({ body, code: answer?.code, jobs: idsOf(body).size }))).toEqual([]);
  expect(landed.length).toBe(moved.length);
  expect(await cluster.balanceOf(seller, mint)).toBe(received + PRICE * BigInt(moved.length));
  expect(await journal.totals()).toMatchObject({
    payments: { settled: moved.length, intent: 0, unresolved: 0 },
    paidCalls: { done: moved.length, ready: 0, leased: 0, dead: 0 },
  });
  expect(reached).toEqual(new Set(POINTS));
  expect(struck).toEqual(new Set(Object.keys(faults)));
}
