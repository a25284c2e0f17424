import { type Log, parseEventLogs } from "viem";
import type { PaymentIntent } from "../../core/payment.ts";
import { TOKEN_EVENTS } from "./token-events.ts";

/**
 * Whether the transaction that used a payment's nonce also made the payment: a Transfer of the exact amount from
 * the payer to the recipient.
 *
 * One transaction can use several authorizations of one payer, and then one transfer must not count for two
 * payments: each counts only with the transfer that follows its own AuthorizationUsed at once, as EIP-3009's
 * reference has it. Where the logs do not tell, the answer is `ambiguous`, for the operator to decide.
 * @param logs all logs of the transaction, in order
 */
export function matchTransfer(logs: readonly Log[], intent: PaymentIntent): "matched" | "none" | "ambiguous" {
  const own = logs.filter((log) => log.address.toLowerCase() === intent.key.asset);
  const events = parseEventLogs({
    abi: TOKEN_EVENTS,
    logs: own,
    eventName: ["AuthorizationUsed", "Transfer"],
  });
  const transfers = events.filter((event) => isPayment(event, intent));
  if (transfers.length === 0) return "none";

  const uses = events.filter((event) => isUseByPayer(event, intent));
  if (uses.length === 1) return "matched";

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
