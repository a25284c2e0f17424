import { type Log, parseEventLogs } from "viem";
import type { PaymentIntent } from "../../core/payment.ts";
import { ownLogs, TOKEN_EVENTS } from "./nonce-use.ts";

/**
 * The state of a payment's nonce as its token's chain shows it. "Expired" means that a confirmed block is past the
 * payment's `validBefore`; "confirmed" means that enough blocks are on top.
 */
export type NonceFacts =
  | { readonly nonce: "unused"; readonly expired: boolean }
  /** The token's state says that the nonce is used, but no event tells how. */
  | { readonly nonce: "used_unexplained"; readonly expired: boolean; readonly problem: string }
  | { readonly nonce: "cancelled"; readonly confirmed: boolean }
  | {
      readonly nonce: "used";
      readonly confirmed: boolean;
      readonly transaction: `0x${string}`;
      /** All logs of the transaction, in order. Undefined when the chain no longer has it; not read until confirmed. */
      readonly logs: readonly Log[] | undefined;
    };

/** Decision about a payment. */
export type Evidence =
  /** The transaction used the authorization and made the offered transfer, in a confirmed block. */
  | { readonly kind: "paid"; readonly transaction: string }
  /** A confirmed block shows that the authorization can never pay: cancelled, expired unused, or used otherwise. */
  | { readonly kind: "not_paid"; readonly reason: string }
  /** Not decided yet: look again later. `isAlmostNotPaid` is set when one more look like this one decides it. */
  | { readonly kind: "open"; readonly reason: string; readonly isAlmostNotPaid?: true }
  /** The chain cannot decide it: the operator has to. */
  | { readonly kind: "unknown"; readonly reason: string };

/** Decides whether a payment was paid. */
export function decidePayment(facts: NonceFacts, intent: PaymentIntent): Evidence {
  switch (facts.nonce) {
    case "unused":
      // Until a confirmed block is past its time, the authorization can still be used.
      if (!facts.expired) return open("the authorization is unused and still valid");
      return notPaid("the authorization expired unused");
    case "used_unexplained":
      // A node's logs may lag behind its state, but not for the lifetime of an authorization.
      if (!facts.expired) return open(facts.problem);
      return unknown(facts.problem);
    case "cancelled":
      if (!facts.confirmed) return open("the block that cancelled the authorization is not confirmed yet");
      return notPaid("the payer cancelled the authorization");
    case "used":
      if (!facts.confirmed) return open("the block that used the authorization is not confirmed yet");
      // Not "no transfer": a reorganisation removed the transaction meanwhile, or this node lags behind.
      if (facts.logs === undefined) return open("the transaction that used the authorization is gone");
      return decideByTransfer(facts.transaction, facts.logs, intent);
  }
}

function decideByTransfer(transaction: string, logs: readonly Log[], intent: PaymentIntent): Evidence {
  switch (matchTransfer(logs, intent)) {
    case "matched":
      return { kind: "paid", transaction };
    case "none":
      return notPaid("the authorization was used without the offered transfer");
    case "ambiguous":
      return unknown(
        "one transaction used several authorizations, and its logs do not show which transfer is whose",
      );
  }
}

/**
 * Finds out whether the transaction that used a payment's nonce also made the payment: a Transfer of the exact amount
 * from the payer to the recipient.
 *
 * One transaction can use several authorizations of one payer, and then one transfer must not count for two payments.
 * Each counts only with the transfer that directly follows its own AuthorizationUsed, as in EIP-3009's reference
 * implementation. If the logs are in another order, the answer is `ambiguous`.
 * @param logs all logs of the transaction, in order
 */
export function matchTransfer(logs: readonly Log[], intent: PaymentIntent): "matched" | "none" | "ambiguous" {
  const events = parseEventLogs({
    abi: TOKEN_EVENTS,
    logs: ownLogs(logs, intent.key),
    eventName: ["AuthorizationUsed", "Transfer"],
  });
  if (!events.some((event) => isPayment(event, intent))) return "none";
  if (events.filter((event) => isUseByPayer(event, intent)).length === 1) return "matched";

  const index = events.findIndex((event) => isUseByPayer(event, intent) && usesNonce(event, intent));
  const next = events[index + 1];
  if (next !== undefined && isPayment(next, intent)) return "matched";
  return next?.eventName === "Transfer" ? "none" : "ambiguous";
}

type TokenEvent = ReturnType<
  typeof parseEventLogs<typeof TOKEN_EVENTS, true, ["AuthorizationUsed", "Transfer"]>
>[number];

function isPayment(event: TokenEvent, { key, payTo, amount }: PaymentIntent): boolean {
  return (
    event.eventName === "Transfer" &&
    event.args.from.toLowerCase() === key.payer &&
    event.args.to.toLowerCase() === payTo.toLowerCase() &&
    event.args.value === BigInt(amount)
  );
}

function isUseByPayer(event: TokenEvent, { key }: PaymentIntent): boolean {
  return event.eventName === "AuthorizationUsed" && event.args.authorizer.toLowerCase() === key.payer;
}

function usesNonce(event: TokenEvent, { key }: PaymentIntent): boolean {
  return event.eventName === "AuthorizationUsed" && event.args.nonce.toLowerCase() === key.nonce;
}

function notPaid(reason: string): Evidence {
  return { kind: "not_paid", reason };
}

function open(reason: string): Evidence {
  return { kind: "open", reason };
}

function unknown(reason: string): Evidence {
  return { kind: "unknown", reason };
}
