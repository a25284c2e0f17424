import type { Committed } from "../../../src/store/operations.ts";
import type { Simulation } from "./simulation.ts";

/** Time by which clocks of whole milliseconds may differ. */
const ROUNDING_MS = 1;

/** Time in which a gateway sends a JobCall that it has claimed. */
const ON_ITS_WAY_MS = 100;

/** A JobCall as a gateway sends it. */
export interface SentCall {
  readonly callId: number;
  readonly leaseToken: string;
  readonly attempt: number;
}

interface Lease {
  readonly token: string;
  /** Virtual time. */
  endsAt: number;
}

/** A JobCall as the store's commits have left it. */
interface Known {
  attempt: number;
  lease: Lease | undefined;
  /** Lease that ended with the payment's authorization, and the end of the time in which the JobCall may be on its way. */
  ended: Lease | undefined;
  /** Lease under which it was acknowledged. */
  doneUnder: string | undefined;
  /** Leases under which runners asked to acknowledge it. */
  readonly asked: Set<string>;
}

/** Laws of deliveries, checked at each commit of the store and at each message of a gateway. */
export class LeaseLaws {
  readonly #simulation: Simulation;
  readonly #calls = new Map<number, Known>();
  /** JobCalls whose runners heard that they are done. */
  readonly finished = new Set<number>();
  /** Clocks of gateways are right, so that leases end when they say. */
  areClocksRight = true;
  #isStopped = false;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  /** Checks nothing more: nobody knows what the store holds. */
  stop(): void {
    this.#isStopped = true;
  }

  /** A store has committed an operation. */
  committed(committed: Committed, askedAt: number): void {
    if (this.#isStopped) return;
    const at = this.#virtual(askedAt);
    const { operation, input } = committed;
    if (operation === "claim") {
      for (const { callId, attempt, leaseToken, leaseExpiresAt } of committed.outcome.calls)
        this.#claimed(callId, attempt, { token: leaseToken, endsAt: this.#virtual(leaseExpiresAt) });
    } else if (operation === "extend" && committed.outcome.outcome === "done") {
      const lease = this.#held(input[0], at, "extended");
      if (lease !== undefined) lease.endsAt = this.#virtual(committed.outcome.leaseExpiresAt);
    } else if (operation === "ack" && committed.outcome.outcome === "done") {
      this.#acknowledged(input[0], at);
    } else if (operation === "retry" || operation === "fail" || operation === "release") {
      if (committed.outcome.outcome !== "done") return;
      this.#held(input[0], at, "given back");
      this.#of(input[0].callId).lease = undefined;
    } else if (operation === "endAuthorization" && committed.outcome.kind === "dead_lettered") {
      const known = this.#of(input[0]);
      known.ended = known.lease && { ...known.lease, endsAt: this.#simulation.now + ON_ITS_WAY_MS };
      known.lease = undefined;
    }
  }

  /** A gateway sends a JobCall to a runner. */
  sent({ callId, leaseToken, attempt }: SentCall): void {
    if (this.#isStopped) return;
    const run = this.#simulation;
    const { lease, ended, doneUnder, attempt: latest } = this.#of(callId);
    const isOnItsWay =
      ended?.token === leaseToken && run.now <= Math.max(ended.endsAt, run.goesOnAt + ON_ITS_WAY_MS);
    const name = `JobCall ${callId}`;
    if (doneUnder !== undefined) run.break(`${name} was delivered after its ack`);
    else if (isOnItsWay) return;
    else if (lease?.token !== leaseToken) run.break(`${name} was delivered under a lease that had ended`);
    else if (this.#isOver(lease, run.now)) run.break(`${name} was delivered after its lease`);
    else if (attempt !== latest)
      run.break(`${name} was delivered as attempt ${attempt}, and it is ${latest}`);
  }

  /** A runner asks to acknowledge a JobCall. */
  asks(callId: number, leaseToken: string): void {
    this.#of(callId).asked.add(leaseToken);
  }

  /** A runner heard that its ack took effect. */
  heardDone(callId: number, leaseToken: string): void {
    this.finished.add(callId);
    if (!this.#isStopped && this.#of(callId).doneUnder !== leaseToken)
      this.#simulation.break(`a runner heard that JobCall ${callId} is done, and it is not`);
  }

  /** Reports whether a lease of the JobCall holds, as far as that can be known. */
  isHeld(callId: number, askedAt: number): boolean {
    const { lease } = this.#of(callId);
    return this.#isStopped || (lease !== undefined && !this.#isOver(lease, this.#virtual(askedAt)));
  }

  #claimed(callId: number, attempt: number, lease: Lease): void {
    const run = this.#simulation;
    const known = this.#of(callId);
    const name = `JobCall ${callId}`;
    if (known.doneUnder !== undefined) run.break(`${name} was leased after its ack`);
    // A store may carry the claim out long after it was asked for, and the lease before may end in that time.
    if (this.areClocksRight && known.lease !== undefined && known.lease.endsAt > run.now + ROUNDING_MS)
      run.break(`${name} was leased while another lease held`);
    if (attempt !== known.attempt + 1)
      run.break(`attempt ${attempt} of ${name} came after attempt ${known.attempt}`);
    known.attempt = attempt;
    known.lease = lease;
  }

  #acknowledged(lease: { readonly callId: number; readonly leaseToken: string }, at: number): void {
    const { callId, leaseToken } = lease;
    const known = this.#of(callId);
    this.#held(lease, at, "finished");
    if (known.doneUnder !== undefined) this.#simulation.break(`JobCall ${callId} was finished twice`);
    if (!known.asked.has(leaseToken))
      this.#simulation.break(`JobCall ${callId} was finished, and its runner did not ask for it`);
    known.doneUnder = leaseToken;
    known.lease = undefined;
  }

  /** Checks that a change is one under the lease that holds. */
  #held(
    { callId, leaseToken }: { readonly callId: number; readonly leaseToken: string },
    at: number,
    change: string,
  ): Lease | undefined {
    const { lease } = this.#of(callId);
    if (lease?.token === leaseToken && !this.#isOver(lease, at)) return lease;
    this.#simulation.break(`JobCall ${callId} was ${change} by a lease that was over`);
    return undefined;
  }

  /** Returns the simulated time at which the wall clock shows a time, as it is set now. */
  #virtual(unixMs: number): number {
    const { now, wallMs } = this.#simulation;
    return now + unixMs - wallMs;
  }

  #isOver({ endsAt }: Lease, at: number): boolean {
    return this.areClocksRight && at > endsAt + ROUNDING_MS;
  }

  #of(callId: number): Known {
    const known = this.#calls.get(callId) ?? {
      ...{ attempt: 0, lease: undefined, ended: undefined, doneUnder: undefined },
      asked: new Set<string>(),
    };
    this.#calls.set(callId, known);
    return known;
  }
}
