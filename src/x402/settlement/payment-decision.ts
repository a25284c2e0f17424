import type { UseOutcome } from "./authorization.ts";

/**
 * The state of a payment's nonce as its chain shows it. "Expired" means that a confirmed block is past the
 * authorization's end; "confirmed" means that enough blocks are on top.
 */
export type NonceFacts =
  | { readonly nonce: "unused"; readonly expired: boolean }
  /** The state shows that the nonce is used, but no log shows how. */
  | { readonly nonce: "used_unexplained"; readonly expired: boolean; readonly problem: string }
  | { readonly nonce: "used"; readonly confirmed: boolean; readonly outcome: UseOutcome };

/** Decision about a payment. */
export type Evidence =
  /**
   * The transaction used the authorization and paid the seller, in a confirmed block. `mayBeReplaced`: a fork may still replace the
   * block, and the payment may be sold before it is final.
   */
  | {
      readonly kind: "paid";
      readonly transaction: string;
      /** Token units that moved; undefined for the offered amount. */
      readonly amount?: string | undefined;
      /** Undefined if the facilitator's answer was accepted and names no block. */
      readonly blockNumber?: string | undefined;
      readonly mayBeReplaced?: true;
    }
  /** A confirmed block shows that the authorization can never pay: cancelled, expired unused, or used otherwise. */
  | { readonly kind: "not_paid"; readonly reason: string }
  /**
   * Not decided yet, so the payment is checked again later.
   * - `isAlmostNotPaid`: one more observation with this result decides the payment as not paid.
   * - `isUnused`: the newest block leaves the authorization unused and valid, so requesting settlement again can succeed. It
   *   does not prove that no money moves later, because a transaction may be on its way, and the RPC's node may lag behind.
   * - `isUnread`: the RPC failed.
   */
  | {
      readonly kind: "open";
      readonly reason: string;
      readonly isAlmostNotPaid?: true;
      readonly isUnused?: true;
      readonly isUnread?: true;
    }
  /** The chain cannot decide the payment, so the operator has to. */
  | { readonly kind: "unknown"; readonly reason: string };

export type PaidEvidence = Extract<Evidence, { kind: "paid" }>;

/** Decides whether a payment was paid. */
export function decidePayment(facts: NonceFacts): Evidence {
  switch (facts.nonce) {
    case "unused":
      // Until a confirmed block is past its time, the authorization can still be used.
      if (!facts.expired) return { ...open("the authorization is unused and still valid"), isUnused: true };
      return notPaid("the authorization expired unused");
    case "used_unexplained":
      // A node's logs may lag behind the node's state, but not for as long as an authorization is valid.
      if (!facts.expired) return open(facts.problem);
      return unknown(facts.problem);
    case "used":
      if (!facts.confirmed) return open("the block that used the authorization is not confirmed yet");
      return decideByOutcome(facts.outcome);
  }
}

function decideByOutcome(outcome: UseOutcome): Evidence {
  switch (outcome.kind) {
    case "paid":
      return outcome;
    case "cancelled":
      return notPaid("the payer cancelled the authorization");
    case "used_otherwise":
      return notPaid("the authorization was used without the offered transfer");
    case "ambiguous":
      return unknown(
        "one transaction used several authorizations, and its logs do not show which transfer is whose",
      );
    case "unread":
      // The result is not "no transfer", because a reorganisation may have removed the transaction, or this node lags
      // behind.
      return open("the transaction that used the authorization is gone");
  }
}

function notPaid(reason: string): Evidence {
  return { kind: "not_paid", reason };
}

function open(reason: string): Evidence & { kind: "open" } {
  return { kind: "open", reason };
}

function unknown(reason: string): Evidence {
  return { kind: "unknown", reason };
}
