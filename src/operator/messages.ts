import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Config } from "../config/config.ts";
import { amountText } from "../core/amounts.ts";
import type { PaymentState as PaymentStateName, RefundState as RefundStateName } from "../core/payment.ts";
import { CallbackState, CallState, PaymentState, RefundState } from "../gen/jobgate/v1/operator_pb.ts";
import type { CallbackState as CallbackStateName } from "../store/contract/callback-ledger.ts";
import type { ListedState } from "../store/contract/operator-lists.ts";
import type { Refund } from "../store/contract/refund-ledger.ts";
import { isUnproven } from "../store/rules/refunds.ts";

/** JSON of the API: snake_case names, zero and empty values included. A u64 is a string. */
export const JSON_OPTIONS = { useProtoFieldName: true, alwaysEmitImplicit: true } as const;

/** Returns the name of a number of the API; undefined for UNSPECIFIED and for numbers that this version does not know. */
export function nameIn<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
  message: number,
): Name | undefined {
  return (Object.keys(numbers) as Name[]).find((name) => numbers[name] === message);
}

/** The API's number for each state of a payment. */
export const PAYMENT_STATES = {
  intent: PaymentState.INTENT,
  settled: PaymentState.SETTLED,
  failed: PaymentState.FAILED,
  unresolved: PaymentState.UNRESOLVED,
  authorized: PaymentState.AUTHORIZED,
  settling: PaymentState.SETTLING,
  released: PaymentState.RELEASED,
} as const satisfies Record<PaymentStateName, PaymentState>;

/** The API's number for each state of a refund. */
export const REFUND_STATES = {
  owed: RefundState.OWED,
  sending: RefundState.SENDING,
  refunded: RefundState.REFUNDED,
  refund_failed: RefundState.REFUND_FAILED,
  declined: RefundState.DECLINED,
} as const satisfies Record<RefundStateName, RefundState>;

/** Why a refund waits while the configuration has no account for refunds. */
const NO_ACCOUNT = "the configuration has no account for refunds";

/** Makes the message of a refund, whose reason is also why it is not sent at the configuration in use. */
export function toRefund(refund: Refund, configuration: () => Pick<Config, "x402">) {
  const { network, asset, symbol, amount, payer, attempt, state, decision, transaction = "" } = refund;
  const asks = state === "owed" && (!refund.isApproved || isUnproven(refund));
  const isDue = (state === "owed" && !asks) || state === "sending";
  const reason = isDue && !configuration().x402?.paysBack ? NO_ACCOUNT : (refund.reason ?? "");
  return {
    ...{ network, asset, symbol, amount, payer, attempt, reason, transaction },
    callId: BigInt(refund.callId),
    state: REFUND_STATES[state],
    asks,
    amountText: amountText(amount, symbol, decimalsIn(configuration)(refund)),
    createdAt: timestampFromMs(refund.createdAt),
    updatedAt: timestampFromMs(refund.updatedAt),
    ...(decision === undefined ? {} : { decision: toDecision(decision) }),
  };
}

function toDecision({ as, by, note, at }: NonNullable<Refund["decision"]>) {
  return { approved: as === "approved", by, note, at: timestampFromMs(at) };
}

/** The API's number for each state of a callback. */
export const CALLBACK_STATES = {
  pending: CallbackState.PENDING,
  sent: CallbackState.SENT,
  dead: CallbackState.DEAD,
} as const satisfies Record<CallbackStateName, CallbackState>;

/** Returns the decimals of a token; undefined for one that is not in the configuration. */
export type DecimalsOf = (token: { readonly network: string; readonly asset: string }) => number | undefined;

/** Finds the decimals of tokens in the configuration in use. */
export function decimalsIn(configuration: () => Pick<Config, "x402">): DecimalsOf {
  return ({ network, asset }) =>
    configuration().x402?.acceptedTokens.find(
      (token) => token.network === network && token.asset.toLowerCase() === asset.toLowerCase(),
    )?.decimals;
}

/** The API's number for each state of a JobCall. */
export const CALL_STATES = {
  held: CallState.HELD,
  ready: CallState.READY,
  leased: CallState.LEASED,
  done: CallState.DONE,
  dead: CallState.DEAD,
  dropped: CallState.DROPPED,
} as const satisfies Record<ListedState, CallState>;
