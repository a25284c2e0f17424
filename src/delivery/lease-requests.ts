import {
  type ExtendRequest,
  type ExtendRequest_Lease,
  LeaseStatus,
  type NackRequest_Nack,
} from "../gen/jobgate/v1/runner_pb.ts";
import type { Charge, Lease, LeaseOutcome, RetryBackoff } from "../store/contract/work-queue.ts";
import { chargeProblem } from "../store/rules/charges.ts";
import type { Dispatcher } from "./dispatcher.ts";
import {
  InvalidRequestError,
  type LeaseAck,
  readCharge,
  readExtendMs,
  readLeases,
  readNackOutcome,
  readProgress,
  readResult,
  refuseTooManyLeases,
} from "./runner-requests.ts";

const LEASE_STATUS: Readonly<Record<LeaseOutcome, LeaseStatus>> = {
  done: LeaseStatus.DONE,
  lease_lost: LeaseStatus.LEASE_LOST,
  not_found: LeaseStatus.NOT_FOUND,
};

/** Requests about leases, in the order in which a message has them. */
export interface LeaseMessage {
  readonly acks?: readonly LeaseAck[];
  readonly nacks?: readonly NackRequest_Nack[];
  readonly extends?: readonly ExtendRequest_Lease[];
  /** New length of the leases in `extends`; undefined means the configured lease. */
  readonly lease?: ExtendRequest["lease"] | undefined;
}

/** Returns how many leases a message is about. */
export function leaseCount({ acks = [], nacks = [], extends: extensions = [] }: LeaseMessage): number {
  return acks.length + nacks.length + extensions.length;
}

/** One status for each request of a {@link LeaseMessage}, in the same order. */
export interface LeaseStatuses {
  readonly acks: LeaseStatus[];
  readonly nacks: LeaseStatus[];
  readonly extends: LeaseStatus[];
}

/** Reads and carries out what runners ask about leases. */
export class LeaseRequests {
  readonly #dispatcher: Dispatcher;
  readonly #leaseMs: number;
  readonly #maxAttempts: number;
  readonly #backoff: RetryBackoff;

  constructor(options: {
    readonly dispatcher: Dispatcher;
    /** Lease of an extension that does not give one. */
    readonly leaseMs: number;
    readonly maxAttempts: number;
    /** Backoff of a retry that does not give a delay. */
    readonly backoff: RetryBackoff;
  }) {
    this.#dispatcher = options.dispatcher;
    this.#leaseMs = options.leaseMs;
    this.#maxAttempts = options.maxAttempts;
    this.#backoff = options.backoff;
  }

  /**
   * Carries out a message. Reads all of it before it asks for the first: a bad part refuses the message and keeps every lease.
   * @throws InvalidRequestError when a part is bad; GatewayError when the store cannot write: the message may be repeated
   */
  async carryOut(message: LeaseMessage): Promise<LeaseStatuses> {
    const { acks = [], nacks = [], extends: extensions = [] } = message;
    refuseTooManyLeases(leaseCount(message));
    const results = acks.map(readResult);
    const outcomes = nacks.map(readNackOutcome);
    const progress = extensions.map(readProgress);
    const extendMs = readExtendMs(message.lease, this.#leaseMs);
    const charges = acks.map(({ charge }) => readCharge(charge));
    const chargesSoFar = extensions.map(({ chargeSoFar }) => readCharge(chargeSoFar));
    await this.#refuseCharges([...acks, ...extensions], [...charges, ...chargesSoFar]);
    const [acked, nacked, extended] = await Promise.all([
      leaseStatuses(acks, (lease, index) => this.#dispatcher.ack(lease, results[index], charges[index])),
      leaseStatuses(nacks, (lease, index) => this.#nack(lease, outcomes[index])),
      leaseStatuses(extensions, (lease, index) =>
        this.#dispatcher.extend(lease, extendMs, {
          progress: progress[index],
          chargeSoFar: chargesSoFar[index],
        }),
      ),
    ]);
    return { acks: acked, nacks: nacked, extends: extended };
  }

  /**
   * Refuses a message with a charge that its JobCall may not have. What a JobCall may be charged never changes, so that this
   * can be read before anything takes effect.
   */
  async #refuseCharges(
    requested: readonly { callId: bigint; leaseToken: string }[],
    charges: readonly (Charge | undefined)[],
  ): Promise<void> {
    const asked = readLeases(requested).flatMap((lease, index) => {
      const charge = charges[index];
      return lease === undefined || charge === undefined ? [] : { callId: lease.callId, charge };
    });
    if (asked.length === 0) return;
    const ceilings = await this.#dispatcher.ceilings(asked.map(({ callId }) => callId));
    for (const [index, { callId, charge }] of asked.entries()) {
      const ceiling = ceilings[index];
      const problem = ceiling === undefined ? undefined : chargeProblem(ceiling, charge);
      if (problem !== undefined) throw new InvalidRequestError(`JobCall ${callId}: ${problem}.`);
    }
  }

  #nack(lease: Lease, outcome: ReturnType<typeof readNackOutcome> | undefined): Promise<LeaseOutcome> {
    if (outcome?.kind === "fail") return this.#dispatcher.fail(lease, outcome.reason);
    const { delayMs, reason = "" } = outcome ?? {};
    return this.#dispatcher.retry(lease, {
      ...(delayMs !== undefined && { delayMs }),
      backoff: this.#backoff,
      maxAttempts: this.#maxAttempts,
      reason,
    });
  }
}

/** Asks for each lease on its own, so that a lost one harms no other. @returns one status for each lease, in order */
async function leaseStatuses(
  requested: readonly { callId: bigint; leaseToken: string }[],
  ask: (lease: Lease, index: number) => Promise<LeaseOutcome>,
): Promise<LeaseStatus[]> {
  const outcomes = await Promise.allSettled(
    readLeases(requested).map(async (lease, index) => (lease ? ask(lease, index) : "not_found")),
  );
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return LEASE_STATUS[outcome.value];
  });
}
