import { MAX_RESULT_BYTES } from "../core/job-call.ts";
import {
  type ExtendRequest,
  type ExtendRequest_Lease,
  LeaseStatus,
  type NackRequest_Nack,
} from "../gen/jobgate/v1/runner_pb.ts";
import type { Charge, Lease, LeaseOutcome, RetryBackoff, WorkQueue } from "../store/contract/work-queue.ts";
import { chargeProblem } from "../store/rules/charges.ts";
import type { Dispatcher } from "./dispatcher.ts";
import {
  InvalidRequestError,
  type LeaseAck,
  readAck,
  readExtendMs,
  readExtension,
  readLease,
  readNackOutcome,
  refuseTooManyLeases,
} from "./runner-requests.ts";

const LEASE_STATUS: Readonly<Record<LeaseOutcome | "invalid", LeaseStatus>> = {
  done: LeaseStatus.DONE,
  lease_lost: LeaseStatus.LEASE_LOST,
  not_found: LeaseStatus.NOT_FOUND,
  invalid: LeaseStatus.INVALID_ARGUMENT,
};

/** Requests about leases, in the order of a message's fields. */
export interface LeaseMessage {
  readonly acks?: readonly LeaseAck[];
  readonly nacks?: readonly NackRequest_Nack[];
  readonly extends?: readonly ExtendRequest_Lease[];
  /** New length of the leases in `extends`; undefined means the configured lease. */
  readonly lease?: ExtendRequest["lease"] | undefined;
}

/** Returns the number of leases that a message names. */
export function leaseCount({ acks = [], nacks = [], extends: extensions = [] }: LeaseMessage): number {
  return acks.length + nacks.length + extensions.length;
}

/** One status for each request of a {@link LeaseMessage}, in the same order. */
export interface LeaseStatuses {
  readonly acks: LeaseStatus[];
  readonly nacks: LeaseStatus[];
  readonly extends: LeaseStatus[];
}

/** One request of a message, after reading. */
interface Reading<Asked> {
  /** Undefined if no JobCall can have the call ID. */
  readonly lease: Lease | undefined;
  /** Undefined if the request is invalid. */
  asked: Asked | undefined;
}

/** Receives the problem of one invalid request of a message. If it throws, the message changes nothing. */
type OnInvalid = (problem: InvalidRequestError) => void;

/** Reads and executes runners' requests about leases. */
export class LeaseRequests {
  readonly #dispatcher: Dispatcher;
  readonly #workQueue: Pick<WorkQueue, "ceilings" | "jobsOf">;
  readonly #leaseMs: number;
  readonly #maxAttempts: number;
  readonly #backoff: RetryBackoff;

  constructor(options: {
    readonly dispatcher: Dispatcher;
    readonly workQueue: Pick<WorkQueue, "ceilings" | "jobsOf">;
    /** Length of the lease if an extension names no length. */
    readonly leaseMs: number;
    readonly maxAttempts: number;
    /** Backoff of a retry that names no delay. */
    readonly backoff: RetryBackoff;
  }) {
    this.#dispatcher = options.dispatcher;
    this.#workQueue = options.workQueue;
    this.#leaseMs = options.leaseMs;
    this.#maxAttempts = options.maxAttempts;
    this.#backoff = options.backoff;
  }

  /**
   * Executes a message, after reading all of it.
   * @throws InvalidRequestError when the message as a whole is bad
   * @throws GatewayError when the store cannot write; the message may be repeated
   */
  async carryOut(message: LeaseMessage, onInvalid: OnInvalid): Promise<LeaseStatuses> {
    refuseTooManyLeases(leaseCount(message));
    const extendMs = readExtendMs(message.lease, this.#leaseMs);
    const acks = readEach(message.acks, readAck, onInvalid);
    const nacks = readEach(message.nacks, readNackOutcome, onInvalid);
    const extensions = readEach(message.extends, readExtension, onInvalid);
    await this.#refuseCharges([...acks, ...extensions], onInvalid);
    await this.#refuseLargeResults(acks, onInvalid);
    const [acked, nacked, extended] = await Promise.all([
      leaseStatuses(acks, (lease, { result, charge }) => this.#dispatcher.ack(lease, result, charge)),
      leaseStatuses(nacks, (lease, outcome) => this.#nack(lease, outcome)),
      leaseStatuses(extensions, (lease, { progress, charge }) =>
        this.#dispatcher.extend(lease, extendMs, { progress, chargeSoFar: charge }),
      ),
    ]);
    return { acks: acked, nacks: nacked, extends: extended };
  }

  /**
   * Refuses charges that exceed the ceilings of their JobCalls. A JobCall's ceiling never changes, so it can be checked
   * before any request takes effect.
   */
  async #refuseCharges(
    readings: readonly Reading<{ readonly charge?: Charge | undefined }>[],
    onInvalid: OnInvalid,
  ): Promise<void> {
    const charged = readings.flatMap((reading) => {
      const { lease, asked: { charge } = {} } = reading;
      return lease === undefined || charge === undefined ? [] : { reading, callId: lease.callId, charge };
    });
    if (charged.length === 0) return;
    const ceilings = await this.#workQueue.ceilings(charged.map(({ callId }) => callId));
    for (const [index, { reading, callId, charge }] of charged.entries()) {
      const ceiling = ceilings[index];
      const problem = ceiling === undefined ? undefined : chargeProblem(ceiling, charge);
      if (problem === undefined) continue;
      reading.asked = undefined;
      onInvalid(new InvalidRequestError(`JobCall ${callId}: ${problem}.`));
    }
  }

  /** Refuses results that are larger than their jobs allow. */
  async #refuseLargeResults(
    readings: readonly Reading<ReturnType<typeof readAck>>[],
    onInvalid: OnInvalid,
  ): Promise<void> {
    const large = readings.flatMap((reading) => {
      const { lease, asked } = reading;
      const size = asked?.result?.body.byteLength ?? 0;
      return lease === undefined || size <= MAX_RESULT_BYTES ? [] : { reading, callId: lease.callId, size };
    });
    if (large.length === 0) return;
    const jobs = await this.#workQueue.jobsOf(large.map(({ callId }) => callId));
    for (const [index, { reading, callId, size }] of large.entries()) {
      const job = jobs[index];
      const most = job === undefined ? size : this.#dispatcher.maxResultBytes(job);
      if (size <= most) continue;
      reading.asked = undefined;
      const message = `There are ${size} bytes in a result: at most ${most} are taken.`;
      onInvalid(new InvalidRequestError(`JobCall ${callId}: ${message}`));
    }
  }

  #nack(lease: Lease, outcome: ReturnType<typeof readNackOutcome>): Promise<LeaseOutcome> {
    if (outcome.kind === "fail") return this.#dispatcher.fail(lease, outcome.reason);
    const { delayMs, reason } = outcome;
    return this.#dispatcher.retry(lease, {
      delayMs,
      backoff: this.#backoff,
      maxAttempts: this.#maxAttempts,
      reason,
    });
  }
}

/** Reads each request on its own, so that an invalid request does not affect the other requests. */
function readEach<Request extends { readonly callId: bigint; readonly leaseToken: string }, Asked>(
  requests: readonly Request[] = [],
  read: (request: Request) => Asked,
  onInvalid: OnInvalid,
): Reading<Asked>[] {
  return requests.map((request) => {
    const lease = readLease(request);
    try {
      return { lease, asked: read(request) };
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error;
      onInvalid(new InvalidRequestError(`JobCall ${request.callId}: ${error.message}`));
      return { lease, asked: undefined };
    }
  });
}

/**
 * Requests the status of each lease on its own, so that a lost lease does not affect the other leases.
 * @returns one status for each lease, in order
 */
async function leaseStatuses<Asked>(
  readings: readonly Reading<Asked>[],
  ask: (lease: Lease, asked: Asked) => Promise<LeaseOutcome>,
): Promise<LeaseStatus[]> {
  const outcomes = await Promise.allSettled(
    readings.map(async ({ lease, asked }) => {
      if (asked === undefined) return "invalid";
      return lease === undefined ? "not_found" : ask(lease, asked);
    }),
  );
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return LEASE_STATUS[outcome.value];
  });
}
