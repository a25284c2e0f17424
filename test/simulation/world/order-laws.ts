import type { CallLimit } from "../../../src/config/entry-keys.ts";
import type { KeyOrder, NewCall } from "../../../src/store/new-call.ts";
import type { Committed } from "../../../src/store/operations.ts";
import type { Laws } from "./laws.ts";
import type { Simulation } from "./simulation.ts";

/** Time by which clocks of whole milliseconds may differ. */
const ROUNDING_MS = 1;

/** JobCalls of one key, in the order of acceptance. */
interface Key {
  readonly calls: number[];
  readonly begun: Set<number>;
  readonly holdsOnDead: boolean;
  /** JobCall that was given out, until it is over. */
  out: number | undefined;
  /** Dead letter that holds the key up. */
  heldBy: number | undefined;
}

interface KnownCall {
  readonly jobId: string;
  readonly key: Key | undefined;
  /** Unix milliseconds; undefined while it is not out. */
  leasedUntil: number | undefined;
}

/** Laws of order and limits, checked at each commit of the store. That nobody starves shows in the end, when nothing may wait. */
export class OrderLaws {
  readonly #simulation: Simulation;
  readonly #limits: ReadonlyMap<string, CallLimit>;
  readonly #keys = new Map<string, Key>();
  readonly #calls = new Map<number, KnownCall>();
  /** Times at which JobCalls of a job were given out: Unix milliseconds. */
  readonly #starts = new Map<string, number[]>();
  /** Dead letters whose keys go on. */
  readonly dead = new Set<number>();

  /** @param limits by job ID */
  constructor(simulation: Simulation, laws: Laws, limits: ReadonlyMap<string, CallLimit>) {
    this.#simulation = simulation;
    this.#limits = limits;
    laws.onCommit((committed, now) => this.#committed(committed, now));
  }

  #committed(committed: Committed, now: number): void {
    const { operation } = committed;
    if (operation === "acceptOnce" && committed.outcome.kind === "accepted")
      this.#accepted(committed.outcome.callId, committed.input[0] as unknown as NewCall);
    else if (operation === "claim") {
      for (const { callId } of committed.outcome.deadLettered) this.#died(callId);
      for (const { callId, attempt, leaseExpiresAt } of committed.outcome.calls)
        this.#claimed(callId, { attempt, leaseExpiresAt, now });
    } else if (operation === "expireLeases") for (const { callId } of committed.outcome) this.#died(callId);
    else if (operation === "extend" && committed.outcome.outcome === "done")
      this.#leased(committed.input[0].callId, committed.outcome.leaseExpiresAt);
    else if (operation === "ack" && committed.outcome.outcome === "done")
      this.#ended(committed.input[0].callId);
    else if (operation === "retry" || operation === "fail" || operation === "release") {
      const { outcome, deadLettered } = committed.outcome;
      if (outcome !== "done") return;
      this.#leased(committed.input[0].callId, undefined);
      if (deadLettered !== undefined) this.#died(deadLettered.callId);
    } else if (operation === "retryDeadLetter" && committed.outcome === "retried")
      this.#decided(committed.input[0]);
    else if (operation === "dropDeadLetter" && committed.outcome) this.#decided(committed.input[0]);
  }

  #accepted(callId: number, { jobId, order }: NewCall): void {
    const key = order && (this.#keys.get(order.orderKey) ?? newKey(order));
    if (key !== undefined) {
      this.#keys.set(order?.orderKey ?? "", key);
      key.calls.push(callId);
    }
    this.#calls.set(callId, { jobId, key, leasedUntil: undefined });
  }

  #claimed(
    callId: number,
    claim: { readonly attempt: number; readonly leaseExpiresAt: number; readonly now: number },
  ): void {
    const call = this.#calls.get(callId);
    if (call === undefined) return;
    const { jobId, key } = call;
    if (key !== undefined) this.#checkKey(callId, key);
    call.leasedUntil = claim.leaseExpiresAt;
    const limit = this.#limits.get(jobId);
    if (limit !== undefined) this.#checkLimit(jobId, limit, claim.now);
  }

  #checkKey(callId: number, key: Key): void {
    const run = this.#simulation;
    const { out, heldBy, begun, calls } = key;
    if (out !== undefined && out !== callId)
      run.break(`JobCall ${callId} is out, and so is JobCall ${out} of its key`);
    if (heldBy !== undefined)
      run.break(`JobCall ${callId} is out, and the dead letter ${heldBy} holds its key up`);
    const earlier = calls.find((one) => one < callId && !begun.has(one));
    const isFirst = !begun.has(callId);
    if (isFirst && earlier !== undefined)
      run.break(`JobCall ${callId} is out, and JobCall ${earlier} of its key was never`);
    begun.add(callId);
    key.out = callId;
  }

  #checkLimit(jobId: string, { concurrency, rate }: CallLimit, now: number): void {
    const run = this.#simulation;
    const out = [...this.#calls.values()].filter(
      (call) => call.jobId === jobId && (call.leasedUntil ?? 0) > now + ROUNDING_MS,
    ).length;
    if (concurrency !== undefined && out > concurrency)
      run.break(`${out} JobCalls of job ${jobId} are out, and its limit is ${concurrency}`);
    if (rate === undefined) return;
    const starts = [...(this.#starts.get(jobId) ?? []), now];
    this.#starts.set(jobId, starts);
    const inWindow = starts.filter((at) => at > now - rate.perMs).length;
    if (inWindow > rate.calls)
      run.break(`${inWindow} JobCalls of job ${jobId} went out within ${rate.perMs} ms`);
  }

  #leased(callId: number, until: number | undefined): void {
    const call = this.#calls.get(callId);
    if (call !== undefined) call.leasedUntil = until;
  }

  #ended(callId: number): void {
    this.#leased(callId, undefined);
    const key = this.#calls.get(callId)?.key;
    if (key?.out === callId) key.out = undefined;
  }

  #died(callId: number): void {
    this.#ended(callId);
    const key = this.#calls.get(callId)?.key;
    if (key?.holdsOnDead) key.heldBy = callId;
    else this.dead.add(callId);
  }

  /** The operator retries or drops a dead letter. */
  #decided(callId: number): void {
    this.dead.delete(callId);
    const key = this.#calls.get(callId)?.key;
    if (key?.heldBy === callId) key.heldBy = undefined;
  }
}

function newKey({ holdsOnDead }: KeyOrder): Key {
  return { calls: [], begun: new Set(), holdsOnDead, out: undefined, heldBy: undefined };
}
