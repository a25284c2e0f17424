import type { ChargeKind } from "../../../src/core/payment.ts";
import { decodeJobCall } from "../../../src/delivery/job-call-codec.ts";
import type { OperationOutcome } from "../../../src/store/group-commit.ts";
import type { Committed } from "../../../src/store/operations.ts";
import { PART_MODULES } from "../../../src/store/part-modules.ts";
import { isBalanced } from "../../../src/store/rules/payments.ts";
import { type Database, openDriver, type Statement } from "../../../src/store/sqlite/driver.ts";
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import type { StoreTotals } from "../../../src/store/store.ts";
import { Books } from "./books.ts";
import type { Chain } from "./chain.ts";
import { LeaseLaws, type SentCall } from "./lease-laws.ts";
import type { Told } from "./protocols.ts";
import type { Simulation } from "./simulation.ts";

/** Token whose chain cannot be asked: who settled a payment in it is believed. */
export const UNCHECKED_ASSET: `0x${string}` = `0x${"8".repeat(40)}`;

/** Questions to facilitators about a payment, and their answers. */
interface Word {
  readonly asked: Set<string>;
  /** Unix milliseconds. */
  askedAtMs: number;
  saidYes: boolean;
}

/** Price of every job, and the least that a running job charged after the job is charged at the end, in token units. */
export const PRICE = 3_200_000n;
const LEAST_CHARGE = PRICE / 10n;

/** Rows of the store that something still happens to, as the state of a world lists them. */
const UNDECIDED: ReadonlySet<string> = new Set([
  ...["payment intent", "payment authorized", "payment settling", "payment unresolved"],
  ...["call held", "call ready", "call leased", "call delayed", "callback pending", "watch early"],
]);

/** A payment that a client has signed. */
export interface SignedPayment {
  readonly payer: string;
  readonly nonce: string;
  /** Client that signed it. Its requests begin with this name. */
  readonly client: string;
  readonly charge: ChargeKind;
  /** Lower case. */
  readonly asset: string;
  /** Token units. */
  readonly amount: bigint;
  /** Unix seconds. */
  readonly ends: number;
  /** At most one of all payments with this moves. */
  readonly once: string | undefined;
  /** Requests with it that have no answer, or one that leaves a charge possible. */
  mayBeCharged: number;
  /** A client heard that it failed for good. */
  hasFailed: boolean;
  /** Token units that moved for good, where another chain than the EVM's shows that. */
  moved?: () => bigint;
  /** It was in a block that sells jobs, and which a fork can replace. */
  wasShown?: () => boolean;
  /** The purchase that its client heard of. */
  bought?: { readonly callId: number; readonly body: string; readonly token: unknown };
}

/** All that is watched in a run, and the laws that must hold. */
export class Laws {
  readonly #simulation: Simulation;
  readonly #chain: Chain;
  readonly #confirmations: number;
  readonly payments: SignedPayment[] = [];
  /** Bodies of JobCalls that runners got, by call ID. */
  readonly #delivered = new Map<number, string>();
  readonly #calls = new Map<string, number>();
  /** Clients whose JobCalls were leased. */
  readonly #running = new Set<string>();
  readonly #words = new Map<string, Word>();
  readonly #checks: (() => void)[] = [];
  readonly #lastChecks: ((database: Database) => void)[] = [];
  readonly #orderers = new Map<string, (callId: number, body: string) => void>();
  /** Charges that runners asked for, by client. */
  readonly #asked = new Map<string, Set<bigint>>();
  readonly leases: LeaseLaws;
  readonly #listeners: ((committed: Committed, now: number) => void)[] = [];
  readonly #onSettle: ((payment: SignedPayment) => void)[] = [];
  /** A facilitator is asked to settle a payment that is charged as used. */
  onCharge: () => void = () => undefined;
  /** Newest block at the last check. */
  #checkedAt: string | undefined;
  /** Payments whose clients have heard something since the last check. */
  readonly #heard = new Set<SignedPayment>();
  readonly #state: Statement<{ kind: string; n: number }>;
  readonly #database: Database;
  readonly books: Books;

  constructor(simulation: Simulation, parts: { chain: Chain; confirmations: number; path: string }) {
    this.#simulation = simulation;
    this.#chain = parts.chain;
    this.#confirmations = parts.confirmations;
    this.leases = new LeaseLaws(simulation);
    this.#database = openDriver(parts.path);
    simulation.onCommit = (operation, outcome) => this.#committed(operation, outcome);
    this.books = new Books(simulation, { ...parts, database: this.#database });
    this.#state = this.#database.prepare(
      // What nobody can decide but the operator stays as it is.
      `WITH left_open AS (SELECT call_id FROM payments WHERE state = 'unresolved' AND asset = '${UNCHECKED_ASSET}')
       SELECT 'payment ' || state AS kind, count(*) AS n FROM payments
         WHERE call_id NOT IN left_open GROUP BY state
       UNION ALL SELECT 'call ' || state, count(*) FROM job_calls
         WHERE call_id NOT IN left_open GROUP BY state
       UNION ALL SELECT 'callback ' || state, count(*) FROM callbacks GROUP BY state
       UNION ALL SELECT 'watch early', count(*) FROM watched_payments WHERE is_early`,
    );
  }

  /** Clocks of gateways are right, so that leases end when they say. */
  get areClocksRight(): boolean {
    return this.leases.areClocksRight;
  }

  /** JobCalls whose end a runner has heard of. */
  get finished(): ReadonlySet<number> {
    return this.leases.finished;
  }

  close(): void {
    this.#database.close();
  }

  /** The answer to a request with a payment. */
  heard(payment: SignedPayment, body: string, { status, body: answer }: Told): void {
    const { code, charged } = answer;
    const { bought } = payment;
    this.#heard.add(payment);
    if (status === 202) {
      const [callId, token] = [Number(answer.call_id), answer.access_token];
      if (bought !== undefined && (bought.callId !== callId || bought.body !== body))
        this.#simulation.break(`${name(payment)} bought JobCall ${bought.callId} and ${callId}`);
      if (payment.hasFailed) this.#simulation.break(`${name(payment)} failed, and then bought a job`);
      if (bought !== undefined && bought.token !== token)
        this.#simulation.break(`${name(payment)} has two access tokens`);
      payment.bought = { callId, body, token };
      return;
    }
    if (code === "settlement_failed") {
      if (bought !== undefined && payment.charge === "before")
        this.#simulation.break(`${name(payment)} bought a job, and then failed`);
      payment.hasFailed = true;
    }
    if (charged === false) {
      payment.mayBeCharged--;
      // A gateway whose clock is wrong refuses what another one takes at the same time. After the job a charge can fail,
      // and a job that failed is not charged.
      const isExcused =
        (code === "payment_mismatch" && !this.areClocksRight) ||
        ((code === "settlement_failed" || code === "call_failed") && payment.charge !== "before");
      if (bought?.body === body && status < 500 && !isExcused)
        this.#simulation.break(`${name(payment)} bought a job, and then nothing: ${code}`);
    }
  }

  /** A facilitator is asked to settle a payment. */
  settleAsked({ nonce }: { readonly nonce: string }, facilitator: string): void {
    const word = this.wordOn(nonce);
    word.asked.add(facilitator);
    word.askedAtMs = this.#simulation.wallMs;
    this.#words.set(nonce, word);
    const payment = this.payments.find((one) => one.nonce === nonce);
    if (payment === undefined) return;
    if (payment.charge === "used") this.onCharge();
    for (const listener of this.#onSettle) listener(payment);
  }

  /** A facilitator says that it has settled a payment. */
  saysYes({ nonce }: { readonly nonce: string }): void {
    const word = this.#words.get(nonce);
    if (word !== undefined) word.saidYes = true;
  }

  wordOn(nonce: string): Word {
    return this.#words.get(nonce) ?? { asked: new Set(), askedAtMs: 0, saidYes: false };
  }

  /** Watches the JobCalls of one who does not pay. @param name what their bodies begin with, before a colon */
  watch(name: string, onDelivered: (callId: number, body: string) => void): void {
    this.#orderers.set(name, onDelivered);
  }

  /** A gateway sends a JobCall to a runner. */
  sent(call: SentCall): void {
    this.leases.sent(call);
    this.books.sent(call.callId);
  }

  /** A runner gets a JobCall. */
  delivered(callId: number, body: string): void {
    const run = this.#simulation;
    if (this.#delivered.has(callId)) return;
    this.#delivered.set(callId, body);
    const client = nameIn(body);
    const orderer = this.#orderers.get(client);
    if (orderer !== undefined) {
      orderer(callId, body);
      return;
    }
    const calls = (this.#calls.get(client) ?? 0) + 1;
    this.#calls.set(client, calls);
    const paid = this.payments.filter((payment) => payment.client === client && this.#isPaid(payment)).length;
    if (paid === 0) run.break(`JobCall ${callId} runs, and nobody has paid for it`);
    else if (calls > paid) run.break(`${client} paid ${paid} times and bought ${calls} jobs`);
  }

  /** A runner asks for a charge. */
  asks(body: string, units: bigint): void {
    const client = nameIn(body);
    this.#asked.set(client, (this.#asked.get(client) ?? new Set()).add(units));
  }

  /** Watches what stores commit. The listener also gets the time of the operation, in Unix milliseconds. */
  onCommit(listener: (committed: Committed, now: number) => void): void {
    this.#listeners.push(listener);
  }

  #committed({ name, input, now }: TimedOperation, outcome: OperationOutcome | undefined): void {
    if (outcome === undefined) this.leases.stop();
    if (outcome === undefined || !("result" in outcome)) return;
    const committed = committedBy({ name, input }, outcome.result);
    this.leases.committed(committed, now);
    for (const listener of this.#listeners) listener(committed, now);
    if (committed.operation === "claim")
      for (const { encoded } of committed.outcome.calls) this.#running.add(clientOf(encoded));
    else if (committed.operation === "endAuthorization") this.#authorizationEnded(committed, now);
  }

  #authorizationEnded(
    { input: [callId], outcome: { kind } }: Committed & { readonly operation: "endAuthorization" },
    now: number,
  ): void {
    if (kind === "charged" && !this.leases.isHeld(callId, now))
      this.#simulation.break(
        `JobCall ${callId} does not run, and was charged as its payment was about to end`,
      );
  }

  /**
   * Laws that hold at any time. Nothing that they depend on changes but by blocks and answers, and an answer changes one
   * payment, unless other chains change as well.
   */
  check(): void {
    const at = this.#chain.head.hash;
    const isNewBlock = at !== this.#checkedAt;
    if (!isNewBlock && this.#heard.size === 0) return;
    this.#checkedAt = at;
    this.books.check();
    for (const check of this.#checks) check();
    const mayHaveChanged = (payment: SignedPayment) =>
      isNewBlock || payment.moved !== undefined || this.#heard.has(payment);
    this.#checkPayments(this.payments.filter(mayHaveChanged));
    this.#heard.clear();
  }

  #checkPayments(payments: readonly SignedPayment[]): void {
    const moved = new Set<string>();
    for (const payment of payments) {
      if (!this.hasMoved(payment)) continue;
      const { once } = payment;
      if (once !== undefined && moved.has(once)) this.#simulation.break(`${once} was paid for twice`);
      if (once !== undefined) moved.add(once);
      if (payment.hasFailed) this.#simulation.break(`${name(payment)} was charged after a no`);
      const { amount = 0n } = this.#chain.useOf(payment) ?? {};
      const isUsed = payment.charge === "used";
      if (isUsed && amount === 0n) this.#simulation.break(`${name(payment)} was settled for nothing`);
      const isLeast = amount === LEAST_CHARGE && this.#running.has(payment.client);
      if (isUsed && !isLeast && !this.#asked.get(payment.client)?.has(amount))
        this.#simulation.break(`${name(payment)} was charged ${amount}, which no runner asked for`);
      if (payment.mayBeCharged <= 0)
        this.#simulation.break(`${name(payment)} was charged, and every request with it was refused`);
    }
  }

  checkSums(totals: StoreTotals): void {
    if (!isBalanced(totals))
      this.#simulation.break(`the sums do not hold: ${JSON.stringify(totals, textOfBigint)}`);
  }

  /** Everything is decided, and every job done or dead. */
  isQuiet(): boolean {
    return !this.#state.all([]).some(({ kind, n }) => n > 0 && UNDECIDED.has(kind));
  }

  /** Returns the number of payments in the store that neither settled nor failed. */
  undecided(): number {
    const select = this.#database.prepare<{ n: number }>(
      "SELECT count(*) AS n FROM payments WHERE state NOT IN ('settled', 'failed', 'released')",
    );
    return select.get([])?.n ?? 0;
  }

  describe(): string {
    return this.#state
      .all([])
      .map(({ kind, n }) => `${kind}: ${n}`)
      .join(", ");
  }

  /** Checks the laws that hold in the end. */
  checkEnd(): void {
    const select = this.#database.prepare<{ state: string; reason: string | null; calls: number }>(
      `SELECT state, reason, (SELECT count(*) FROM job_calls WHERE call_id = payments.call_id)
         + (SELECT count(*) FROM finished_calls WHERE call_id = payments.call_id) AS calls
         FROM payments WHERE nonce = ?`,
    );
    for (const check of this.#lastChecks) check(this.#database);
    for (const payment of this.payments) {
      const row = select.get([payment.nonce]);
      const hasMoved = this.hasMoved(payment);
      const { state = "unknown", reason = null, calls = 0 } = row ?? {};
      if (payment.asset === UNCHECKED_ASSET) {
        if (payment.bought !== undefined && (state !== "settled" || calls !== 1))
          this.#simulation.break(`${name(payment)} bought a job: it is ${state} and has ${calls} jobs`);
        continue;
      }
      const isTaken = reason?.startsWith("sold before its block was final") === true;
      if (isTaken && (hasMoved || !payment.wasShown?.()))
        this.#simulation.break(
          `${name(payment)} is an alert: it ${hasMoved ? "was paid" : "was never shown"}`,
        );
      if (isTaken) {
        this.#simulation.say(`${name(payment)} was sold, and a fork took it away`);
        if (state !== "settled" || calls !== 1)
          this.#simulation.break(`${name(payment)} was sold: it is ${state} and has ${calls} jobs`);
        continue;
      }
      if (hasMoved && (state !== "settled" || calls !== 1))
        this.#simulation.break(`${name(payment)} was paid: it is ${state} (${reason}) and has ${calls} jobs`);
      if (!hasMoved && (state === "settled" || (payment.bought !== undefined && payment.charge === "before")))
        this.#simulation.break(`${name(payment)} was not paid, and bought a job: it is ${state}`);
    }
    this.books.checkEnd(this.payments);
  }

  /** Prepares a query of the store's rows. */
  prepare<Row>(sql: string): Statement<Row> {
    return this.#database.prepare<Row>(sql);
  }

  /** Checks a law of some part of the world after each block, and after each answer that a client of payments hears. */
  atEachBlock(check: () => void): void {
    this.#checks.push(check);
  }

  /** Checks a law of some part of the world in the end. */
  atEnd(check: (database: Database) => void): void {
    this.#lastChecks.push(check);
  }

  /** Returns the number of a client's payments that the store knows. */
  begun(client: string): number {
    return this.payments.filter((payment) => payment.client === client && this.stateOf(payment) !== undefined)
      .length;
  }

  /** Returns a payment's state in the store; undefined if it does not know the payment. */
  stateOf({ nonce }: SignedPayment): string | undefined {
    const select = this.#database.prepare<{ state: string }>("SELECT state FROM payments WHERE nonce = ?");
    return select.get([nonce])?.state;
  }

  /** Returns the body of the job that a payment bought; undefined if no runner got it. */
  bodyOf({ nonce }: SignedPayment): string | undefined {
    const select = this.#database.prepare<{ call_id: number }>(
      "SELECT call_id FROM payments WHERE nonce = ?",
    );
    const callId = select.get([nonce])?.call_id;
    return callId === undefined ? undefined : this.#delivered.get(callId);
  }

  /** Returns how the job of a payment ended; undefined if it did not end, or is dead. */
  endOf({ nonce }: SignedPayment): string | undefined {
    const select = this.#database.prepare<{ state: string }>(
      "SELECT finished_calls.state FROM payments JOIN finished_calls USING (call_id) WHERE nonce = ?",
    );
    return select.get([nonce])?.state;
  }

  /** Watches the questions to facilitators to settle. */
  onSettle(listener: (payment: SignedPayment) => void): void {
    this.#onSettle.push(listener);
  }

  /** Returns the number of traces that the store has of a JobCall: one of every call. */
  tracesOf(callId: number): number {
    const select = this.#database.prepare<{ n: number }>(
      `SELECT (SELECT count(*) FROM job_calls WHERE call_id = ?1)
         + (SELECT count(*) FROM finished_calls WHERE call_id = ?1) AS n`,
    );
    return select.get([callId])?.n ?? 0;
  }

  /** There is as much proof that it was paid as there can be before its job runs. */
  #isPaid(payment: SignedPayment): boolean {
    const isBelieved = payment.asset === UNCHECKED_ASSET && this.wordOn(payment.nonce).saidYes;
    return (
      payment.charge !== "before" || isBelieved || payment.wasShown?.() === true || this.hasMoved(payment)
    );
  }

  /** The chain shows the payment as deep as the gateway asks for. */
  hasMoved(payment: SignedPayment): boolean {
    if (payment.moved !== undefined) return payment.moved() > 0n;
    const used = this.#chain.useOf(payment);
    return used !== undefined && used.block <= this.#chain.head.number - (this.#confirmations - 1);
  }
}

function clientOf(encoded: Uint8Array): string {
  return nameIn(Buffer.from(decodeJobCall(encoded).body).toString());
}

/** Text of a JSON body before the client's name. */
export const JSON_BEGINS = '{"for":"';

/** Returns the name of the client that is to have paid for a body. */
export function nameIn(body: string): string {
  const text = body.startsWith(JSON_BEGINS) ? body.slice(JSON_BEGINS.length) : body;
  return text.split(":", 1)[0] ?? "";
}

function name({ nonce, client }: SignedPayment): string {
  return `payment ${shortNonce(nonce)} of ${client}`;
}

/** Part of a nonce that tells it from others in a trace. */
export function shortNonce(nonce: string): string {
  return nonce.slice(-6);
}

/** Returns an operation as a store tells of it. */
function committedBy({ name, input }: Pick<TimedOperation, "name" | "input">, outcome: unknown): Committed {
  const step = PART_MODULES.find(({ steps = {} }) => name in steps)?.steps?.[name];
  if (step === undefined) return { operation: name, input, outcome } as Committed;
  return { operation: "step", name, input, outcome, event: step.event?.(outcome) };
}

function textOfBigint(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
