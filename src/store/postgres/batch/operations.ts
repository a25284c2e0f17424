import type { PaymentIntent, PaymentKey } from "../../../core/payment.ts";
import type { AcceptOnceOutcome, Delivery } from "../../contract/intake.ts";
import type { BeginPaymentOutcome, SettlePaymentOutcome } from "../../contract/payment-journal.ts";
import type { NewOffer, SavedQuote } from "../../contract/price-ledgers.ts";
import type {
  ClaimedCall,
  ClaimRequest,
  JobResult,
  Lease,
  LeaseOutcome,
  Progress,
  ReleaseOptions,
  RetryRequest,
} from "../../contract/work-queue.ts";
import type { NewCall } from "../../new-call.ts";

/** Everything that is done in batches, by name: what it is given, and what comes of it. */
export interface Operations {
  accept: {
    input: { call: NewCall };
    outcome: { kind: "accepted"; callId: number } | { kind: "queue_full" };
  };
  acceptOnce: { input: { call: NewCall; delivery: Delivery }; outcome: AcceptOnceOutcome };

  beginPayment: { input: { intent: PaymentIntent; call: NewCall }; outcome: BeginPaymentOutcome };
  settlePayment: {
    input: { key: PaymentKey; settlement: string };
    outcome: SettlePaymentOutcome;
  };
  failPayment: {
    input: { key: PaymentKey; settlement: string; reason: string };
    outcome: { kind: "failed" } | { kind: "not_open" };
  };
  leavePaymentUnresolved: { input: { key: PaymentKey; reason: string }; outcome: boolean };

  claim: { input: ClaimRequest; outcome: ClaimedCall[] };
  ack: { input: { lease: Lease; result: JobResult | undefined }; outcome: LeaseOutcome };
  retry: { input: { lease: Lease; retry: RetryRequest }; outcome: LeaseOutcome };
  fail: { input: { lease: Lease; reason: string }; outcome: LeaseOutcome };
  extend: {
    input: { lease: Lease; leaseMs: number; progress: Progress | undefined };
    outcome: { outcome: LeaseOutcome; leaseExpiresAt: number };
  };
  release: { input: { lease: Lease } & ReleaseOptions; outcome: LeaseOutcome };

  retryDeadLetter: { input: { callId: number }; outcome: boolean };
  dropDeadLetter: { input: { callId: number }; outcome: boolean };

  saveOffers: { input: { offers: readonly NewOffer[] }; outcome: undefined };
  saveQuote: { input: { quote: SavedQuote }; outcome: SavedQuote };

  /** The smallest write: shows whether the store can write again. */
  probe: { input: undefined; outcome: undefined };
}

export type OperationName = keyof Operations;

/** One operation of a batch. */
export type Operation<Name extends OperationName = OperationName> = {
  [N in Name]: { readonly name: N; readonly input: Operations[N]["input"] };
}[Name];

/** An operation, and where to put what comes of it. */
export type Entry<Name extends OperationName = OperationName> = {
  [N in Name]: {
    readonly name: N;
    readonly input: Operations[N]["input"];
    decide(outcome: Operations[N]["outcome"]): void;
  };
}[Name];

/** Those of some kinds, in their order. */
export function entriesOf<Name extends OperationName>(
  entries: readonly Entry[],
  ...names: readonly Name[]
): Entry<Name>[] {
  return entries.filter((entry): entry is Entry & Entry<Name> =>
    (names as readonly string[]).includes(entry.name),
  );
}
