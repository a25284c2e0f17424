import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { getBase58Decoder } from "@solana/kit";
import type { PaymentPayload } from "@x402/core/types";
import { expect, it, onTestFinished } from "vitest";
import type { Fault } from "../helpers/fault.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { type Runner, startRunner } from "../helpers/runner.ts";
import { randomFrom } from "../helpers/seeded-random.ts";
import { SOLANA_NETWORK } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { type Answer, PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { SALE_CRASHES } from "./crash-rounds.ts";
import { openJournal } from "./journal.ts";

const SEED = 23;
const ROUNDS = 24;
const PAYMENTS_PER_ROUND = 5;
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

const parts = startBeforeAll(startSolanaParts);
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

it("Payments on Solana have one job each, and only if they moved, whatever is killed or answers wrongly", async () => {
  const { cluster, mint, payer, seller } = parts;
  await cluster.fund(payer, mint, PRICE * 1_000n);
  const folder = await mkdtemp(join(tmpdir(), "jobgate-solana-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const slots = setInterval(() => cluster.passSlots(1), 200);
  onTestFinished(() => clearInterval(slots));

  let config = "";
  let life: Jobgate | undefined;
  const current = new Proxy({} as Jobgate, { get: (_, name) => Reflect.get(life as Jobgate, name) });
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
        .replace("timeout_secs = 5", "timeout_secs = 2")
        .replace("[runner]", "[runner]\nretry_base_secs = 0.05\nlease_secs = 1\nmax_attempts = 100");
      life = await startJobgate({ config, folder });
      return current;
    },
  });
  onTestFinished(shop.stop);
  const runners: Runner[] = [shop.runner];
  const startAgain = async (env: Readonly<Record<string, string>> = {}): Promise<Jobgate> => {
    life?.kill("SIGKILL");
    await life?.exited;
    runners.at(-1)?.kill();
    // A payment that is taken up again may reach the point before all listeners are there.
    life = await startJobgate({ config, folder, env }).catch(() => startJobgate({ config, folder }));
    // A fault point may end it before its runner has subscribed.
    await startRunner({ address: life.runnerAddress }).then(
      (runner) => runners.push(runner),
      () => undefined,
    );
    return life;
  };
  const sent: Sent[] = [];
  const send = async (one: Sent): Promise<void> => {
    const answer = await shop.send(one.payment, one).catch(() => undefined);
    if (answer !== undefined && (answer.status === 202 || answer.charged === false)) one.answer = answer;
  };

  const reached = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const point = round % 2 === 0 ? POINTS[(round / 2) % POINTS.length] : undefined;
    const jobgate = await startAgain(point && { JOBGATE_CRASH_AT: point });
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

  cluster.finalizedLag = 0;
  await startAgain();
  const journal = openJournal(join(folder, "jobgate.db"));
  onTestFinished(journal.close);
  await until(
    async () => {
      const { payments } = await journal.totals();
      return payments.intent === 0;
    },
    { waitMs: DECIDED_WITHIN_MS, details: () => (life as Jobgate).logs.slice(-20).join("\n") },
  );
  for (const one of sent)
    await until(
      async () => {
        if (one.answer === undefined) await send(one);
        return one.answer !== undefined;
      },
      { waitMs: DECIDED_WITHIN_MS },
    );

  const landed = cluster.landed.filter(({ err }) => err === null);
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
  expect(await cluster.balanceOf(seller, mint)).toBe(PRICE * BigInt(moved.length));
  expect(await journal.totals()).toMatchObject({
    payments: { settled: moved.length, intent: 0, unresolved: 0 },
    paidCalls: { done: moved.length, ready: 0, leased: 0, dead: 0 },
  });
  expect(reached).toEqual(new Set(POINTS));
  expect(struck).toEqual(new Set(Object.keys(faults)));
});
