import type { PaymentRecord } from "../../core/payment.ts";
import type { CallDetails } from "../../store/contract/operator-lists.ts";
import type { JobIdFilter } from "../../store/store.ts";

/** Returns why a JobCall waits for its payment or a runner, a sentence for each reason; empty if it does not wait. */
export function waitReasons(
  call: CallDetails,
  known: {
    readonly payment: PaymentRecord | undefined;
    /** Jobs that no runner takes. */
    readonly untaken: JobIdFilter;
    /** Reasons that parts give. */
    readonly ofParts: readonly string[];
  },
): string[] {
  const { state, dueAt, jobId } = call;
  const { payment, untaken, ofParts } = known;
  if (state === "held" && payment !== undefined) return [paymentReason(payment)];
  if (state === "held") return [...ofParts];
  if (state !== "ready") return [];
  const reasons = [
    ...(dueAt === undefined ? [] : [`Its next attempt is due at ${timeText(dueAt)}.`]),
    ...ofParts,
    ...(isIn(untaken, jobId) ? [`No runner that is connected here takes job ${jobId}.`] : []),
  ];
  if (reasons.length > 0) return reasons;
  return ["The runners that take its job have no room for another JobCall, or get earlier JobCalls first."];
}

function paymentReason({ state, callId }: PaymentRecord): string {
  return state === "unresolved"
    ? `Its payment is in doubt: decide payment ${callId}.`
    : "Its payment is not settled yet.";
}

function isIn({ kind, jobIds }: JobIdFilter, jobId: bigint): boolean {
  return jobIds.includes(jobId) === (kind === "only");
}

/** ISO 8601 in UTC, to the second. */
function timeText(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}
