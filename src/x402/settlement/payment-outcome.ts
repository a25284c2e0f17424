import type { PaymentRequirements, SettleResponse } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs } from "../../core/job-call.ts";
import {
  isPartial,
  type MovedElsewhere,
  oneSpelling,
  type PaymentIntent,
  type PaymentKey,
  type PaymentRecord,
} from "../../core/payment.ts";
import type { FacilitatorRequest, SettlementAnswer } from "../facilitators/facilitator.ts";

/** Result of a payment, as far as it is known. */
export type PaymentOutcome = (
  | {
      readonly kind: "accepted";
      readonly callId: number;
      readonly payment: PaymentKey;
      readonly receipt: string;
      /** Undefined while a payment that is charged after its job is not settled. */
      readonly settlement?: SettleResponse | undefined;
      /** Unix milliseconds at which the payment was accepted. */
      readonly takenAt: number;
      /** True if the payment's job ran and the payment was not charged. */
      readonly isReleased?: boolean;
    }
  | { readonly kind: "failed"; readonly settlement: SettleResponse }
  | { readonly kind: "undecided" }
) & {
  /** Set when an earlier request led to this outcome. */
  readonly replayed?: true;
  /** The facilitator's header `EXTENSION-RESPONSES`, which is not kept for resends. */
  readonly extensionResponses?: string;
};

/** Fields of a payment that determine whether two requests are the same purchase. */
export interface PurchaseIdentity
  extends Pick<
    PaymentIntent,
    | "fingerprint"
    | "purchaseName"
    | "serviceId"
    | "jobIndex"
    | "bodyHash"
    | "boundHeaders"
    | "notes"
    | "oneTimeNonces"
  > {
  readonly key: Pick<PaymentKey, "payer">;
}

/** Fields that say which payment a request has, and not what the request asks for. */
type PurchaseNaming = Pick<PurchaseIdentity, "fingerprint" | "purchaseName" | "notes" | "key">;

/** The payer gave another purchase this name. */
export class PurchaseNameTaken extends GatewayError {
  /** List of the fields in which the other purchase may differ. */
  readonly what: string;

  constructor(what: string) {
    super(
      "payment_replay",
      `The payer used this name for another ${what}: take a new one. This request charged nothing.`,
    );
    this.what = what;
  }
}

/**
 * Returns the outcome of a journalled payment.
 * @throws GatewayError `payment_replay` if the payment bought something else, {@link PurchaseNameTaken} if another payment
 *   bought something else under its name
 */
export function outcomeOfKnown(record: PaymentRecord, asked: PurchaseIdentity): PaymentOutcome {
  requireSamePurchase(record, asked);
  const { state, callId, key, receipt, settlement, charge, createdAt: takenAt } = record;
  const accepted = { kind: "accepted", callId, payment: key, receipt, takenAt } as const;
  if (state === "settled" && settlement !== undefined)
    return { ...accepted, settlement: JSON.parse(settlement) };
  // The payment's job runs before the payment is settled.
  if (charge !== "before" && state !== "failed") return { ...accepted, isReleased: state === "released" };
  if (state === "failed" && settlement !== undefined) {
    return { kind: "failed", settlement: JSON.parse(settlement) };
  }
  return { kind: "undecided" };
}

/**
 * Checks whether two purchases are of one job with one body, or of one request at a route, and have the same notes. A reload
 * may have put another job at the route in the meantime.
 */
export function buysTheSame(one: PurchaseIdentity, other: PurchaseIdentity): boolean {
  const isAtRoute = one.boundHeaders !== undefined;
  return (
    (isAtRoute || equalJobs(one, other)) &&
    one.bodyHash === other.bodyHash &&
    one.boundHeaders === other.boundHeaders &&
    haveSameNotes(one, other)
  );
}

function haveSameNotes({ notes: one = {} }: PurchaseIdentity, { notes: other = {} }: PurchaseIdentity) {
  return Object.keys({ ...one, ...other }).every((name) => one[name] === other[name]);
}

/**
 * Accepts the same payment, or the same payer's other payment under one name, for the same job, body and notes.
 * @throws GatewayError `payment_replay`, {@link PurchaseNameTaken}
 */
function requireSamePurchase(known: PurchaseIdentity, asked: PurchaseIdentity): void {
  const isSamePayment = known.fingerprint === asked.fingerprint;
  if (buysTheSame(known, asked) && (isSamePayment || haveSameName(known, asked))) return;
  refuseOther(known, asked);
}

function haveSameName(one: PurchaseNaming, other: PurchaseNaming): boolean {
  const { purchaseName: name } = one;
  return name !== undefined && name === other.purchaseName && one.key.payer === other.key.payer;
}

/**
 * Refuses a known payment for a purchase other than its own.
 * @throws GatewayError `payment_replay`, {@link PurchaseNameTaken}
 */
export function refuseOther(known: PurchaseNaming, asked: PurchaseNaming): never {
  const what = whatMayDiffer(asked);
  if (known.fingerprint === asked.fingerprint || !haveSameName(known, asked))
    throw new GatewayError("payment_replay", `This payment was used for another ${what}: sign a new one.`);
  throw new PurchaseNameTaken(what);
}

/** Lists the fields that distinguish purchases, for people, including headers that this request does not have. */
function whatMayDiffer({ notes = {} }: PurchaseNaming): string {
  const all = ["job", "request", "body", ...Object.keys(notes)];
  return `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`;
}

/** An intent that is in the journal. */
export type JournalledPayment = PaymentIntent & {
  readonly callId: number;
  /** ID of the request that is being answered, for the log; undefined if there is no such request. */
  readonly requestId?: string;
};

/** Fields that identify a payment in logs. */
export function logFields({
  key,
  callId,
  requestId,
}: Pick<JournalledPayment, "key" | "callId"> & { readonly requestId?: string | undefined }): Record<
  string,
  unknown
> {
  return { ...(requestId === undefined ? {} : { request: requestId }), callId, payment: key };
}

export function queueFull(): GatewayError {
  return new GatewayError("queue_full", "The queue is full. Nothing was charged: try again later.", {
    headers: { "retry-after": "5" },
  });
}

/** The request that asks the facilitator to settle a journalled payment. */
export function facilitatorRequest(intent: PaymentIntent): FacilitatorRequest {
  const { amount, charge } = intent;
  const required = requirementsOf(intent);
  return {
    payload: JSON.parse(intent.payload),
    requirements: isPartial(charge) ? { ...required, amount } : required,
  };
}

/** Returns the requirements that a payment was made for. */
export function requirementsOf({
  payload,
  requirements,
}: Pick<PaymentIntent, "payload" | "requirements">): PaymentRequirements {
  return requirements === undefined ? JSON.parse(payload).accepted : JSON.parse(requirements);
}

/**
 * Returns the settlement if the facilitator's success can belong to this payment: a transaction, on the payment's network,
 * from its payer. If a success names an amount other than the charge, the chain decides.
 */
export function believableSuccess(
  intent: PaymentIntent,
  answer: SettlementAnswer,
  { isTransaction }: { isTransaction(payment: PaymentIntent, text: string): boolean },
): SettleResponse | undefined {
  if (answer.kind !== "success") return undefined;
  const { network, payer } = intent.key;
  const fromPayer = answer.payer === undefined || oneSpelling(answer.payer) === payer;
  if (isPartial(intent.charge) && (answer.amount ?? intent.amount) !== intent.amount) return undefined;
  if (answer.network !== network || !fromPayer || !isTransaction(intent, answer.transaction))
    return undefined;
  return successResponse(intent, answer.transaction);
}

/** The answer for a payment that was settled with this transaction. */
export function successResponse(
  { key, amount: charged, charge }: Pick<PaymentIntent, "key" | "amount" | "charge">,
  transaction: string,
  amount = charged,
): SettleResponse {
  const network = key.network as SettleResponse["network"];
  const settled = { success: true, payer: key.payer, transaction, network };
  return isPartial(charge) ? { ...settled, amount } : settled;
}

/**
 * The answer for a payment that can never settle.
 * @param moved money that its authorization moved without a charge by this gateway
 */
export function failureResponse(
  { key }: PaymentIntent,
  errorMessage: string,
  moved?: MovedElsewhere,
): SettleResponse {
  return {
    success: false,
    errorReason: "settlement_failed",
    errorMessage,
    payer: key.payer,
    transaction: moved?.transaction ?? "",
    network: key.network as SettleResponse["network"],
    ...(moved && { amount: moved.amount }),
  };
}
