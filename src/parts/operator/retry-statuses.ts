import { DeadLetterStatus } from "../../gen/jobgate/v1/operator_pb.ts";
import type { RetryDeadLetterOutcome } from "../../store/contract/dead-letter-box.ts";

/** What became of a dead letter that is to be retried or dropped. */
export type Outcome = RetryDeadLetterOutcome | "dropped";

/** Outcomes as the operator's API says them. */
export const STATUSES: Readonly<Record<Outcome, DeadLetterStatus>> = {
  retried: DeadLetterStatus.DONE,
  dropped: DeadLetterStatus.DONE,
  not_found: DeadLetterStatus.NOT_FOUND,
  buyer_paid_back: DeadLetterStatus.REFUND_BEGUN,
};

/** Says why nothing became of a call. */
export function whyNotDone(callId: bigint, status: DeadLetterStatus | undefined): string {
  return status === STATUSES.buyer_paid_back
    ? `${callId} is not retried: its buyer was not charged, or is or may be paid back (jobgate refunds list)`
    : `${callId} is not a dead letter`;
}
