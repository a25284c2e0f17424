import { DeadLetterStatus } from "../../gen/jobgate/v1/operator_pb.ts";
import type { RetryDeadLetterOutcome } from "../../store/contract/dead-letter-box.ts";

/** Outcome of retrying or dropping a dead letter. */
export type Outcome = RetryDeadLetterOutcome | "dropped";

/** Statuses of the operator's API by outcome. */
export const STATUSES: Readonly<Record<Outcome, DeadLetterStatus>> = {
  retried: DeadLetterStatus.DONE,
  dropped: DeadLetterStatus.DONE,
  not_found: DeadLetterStatus.NOT_FOUND,
  buyer_paid_back: DeadLetterStatus.REFUND_BEGUN,
};

/** Returns why a dead letter was neither retried nor dropped. */
export function whyNotDone(callId: bigint, status: DeadLetterStatus | undefined): string {
  return status === STATUSES.buyer_paid_back
    ? `${callId} is not retried: its buyer was not charged, or is or may be paid back (jobgate refunds list)`
    : `${callId} is not a dead letter`;
}
