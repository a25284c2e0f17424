import {
  type ChargeKind,
  normalKey,
  type OneTimeNonce,
  type PaymentIntent,
  type PaymentRecord,
  type PaymentState,
  type PurchaseNotes,
} from "../core/payment.ts";

/** Columns of a row of `payments`. */
export interface PaymentRow {
  network: string;
  asset: string;
  payer: string;
  nonce: string;
  state: PaymentState;
  call_id: number;
  service_id: string;
  job_index: number;
  fingerprint: string;
  purchase_name: string | null;
  body_hash: string;
  bound_headers: string | null;
  x402_version: number;
  payload: string;
  /** JSON; null if the requirements equal the payload's `accepted`. */
  requirements: string | null;
  transfer_method: string;
  facilitator: string | null;
  pay_to: string;
  amount: string;
  symbol: string;
  price_wei: string;
  rate: string;
  decimals: number;
  valid_before_secs: number;
  receipt: string;
  from_block: string | null;
  /** JSON of {@link PaymentIntent.oneTimeNonces}. */
  one_time_nonces: string | null;
  settlement: string | null;
  /** Block that the settlement is in, if the chain was queried. */
  block_number: string | null;
  reason: string | null;
  /** JSON of {@link PaymentRecord.closed}. */
  closed: string | null;
  /** Name of the promise to the buyer; `keep` if there is none. */
  on_failure: string;
  charge: ChargeKind;
  /** Largest amount that can be charged; null for a payment that is charged `before`. */
  ceiling: string | null;
  /** JSON of {@link PaymentIntent.notes}. */
  notes: string | null;
  created_at: number;
  updated_at: number;
}

/** The columns in the order in which a row is inserted. */
export const PAYMENT_COLUMNS = [
  "network",
  "asset",
  "payer",
  "nonce",
  "state",
  "call_id",
  "service_id",
  "job_index",
  "fingerprint",
  "purchase_name",
  "body_hash",
  "bound_headers",
  "x402_version",
  "payload",
  "requirements",
  "transfer_method",
  "facilitator",
  "pay_to",
  "amount",
  "symbol",
  "price_wei",
  "rate",
  "decimals",
  "valid_before_secs",
  "receipt",
  "from_block",
  "one_time_nonces",
  "settlement",
  "block_number",
  "reason",
  "closed",
  "on_failure",
  "charge",
  "ceiling",
  "notes",
  "created_at",
  "updated_at",
] as const satisfies readonly (keyof PaymentRow)[];

/** Columns of a payment that decisions and reactions read. */
export const SOLD_COLUMNS = [
  "call_id",
  "state",
  "service_id",
  "job_index",
  "network",
  "asset",
  "symbol",
  "decimals",
  "payer",
  "pay_to",
  "transfer_method",
  "amount",
  "price_wei",
  "rate",
  "settlement",
  "block_number",
  "reason",
  "closed",
  "purchase_name",
  "one_time_nonces",
  "valid_before_secs",
  "charge",
  "ceiling",
  "on_failure",
  "notes",
  "created_at",
  "updated_at",
] as const satisfies readonly (keyof PaymentRow)[];

export type SoldPayment = Readonly<Pick<PaymentRow, (typeof SOLD_COLUMNS)[number]>>;

function beginState({ charge, settlement }: PaymentIntent): PaymentState {
  if (settlement !== undefined) return "settled";
  return charge === "before" ? "intent" : "authorized";
}

/** Makes the row of a new intent. */
export function toPaymentRow(intent: PaymentIntent, callId: number, now: number): PaymentRow {
  const { network, asset, payer, nonce } = normalKey(intent.key);
  // The object is built without a spread, because V8 takes ten times as long to add the other fields to a spread object.
  return {
    network,
    asset,
    payer,
    nonce,
    state: beginState(intent),
    call_id: callId,
    service_id: String(intent.serviceId),
    job_index: intent.jobIndex,
    fingerprint: intent.fingerprint,
    purchase_name: intent.purchaseName ?? null,
    body_hash: intent.bodyHash,
    bound_headers: intent.boundHeaders ?? null,
    x402_version: intent.x402Version,
    payload: intent.payload,
    requirements: intent.requirements ?? null,
    transfer_method: intent.transferMethod,
    facilitator: intent.facilitator ?? null,
    pay_to: intent.payTo,
    amount: intent.amount,
    symbol: intent.symbol,
    price_wei: intent.price,
    rate: intent.rate,
    decimals: intent.decimals,
    valid_before_secs: intent.validBefore,
    receipt: intent.receipt,
    from_block: intent.fromBlock ?? null,
    one_time_nonces: intent.oneTimeNonces === undefined ? null : JSON.stringify(intent.oneTimeNonces),
    settlement: intent.settlement ?? null,
    block_number: null,
    reason: null,
    closed: null,
    on_failure: intent.onFailure ?? "keep",
    charge: intent.charge,
    ceiling: intent.charge === "before" ? null : intent.amount,
    notes: notesText(intent.notes),
    created_at: now,
    updated_at: now,
  };
}

export function toPaymentRecord(row: PaymentRow): PaymentRecord {
  return {
    key: { network: row.network, asset: row.asset, payer: row.payer, nonce: row.nonce },
    state: row.state,
    callId: row.call_id,
    serviceId: BigInt(row.service_id),
    jobIndex: row.job_index,
    fingerprint: row.fingerprint,
    bodyHash: row.body_hash,
    boundHeaders: row.bound_headers ?? undefined,
    x402Version: row.x402_version,
    payload: row.payload,
    requirements: row.requirements ?? undefined,
    transferMethod: row.transfer_method,
    payTo: row.pay_to,
    amount: row.amount,
    symbol: row.symbol,
    price: row.price_wei,
    validBefore: row.valid_before_secs,
    receipt: row.receipt,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    rate: row.rate,
    decimals: row.decimals,
    facilitator: row.facilitator ?? undefined,
    purchaseName: row.purchase_name ?? undefined,
    fromBlock: row.from_block ?? undefined,
    settlement: row.settlement ?? undefined,
    reason: row.reason ?? undefined,
    closed: row.closed === null ? undefined : JSON.parse(row.closed),
    onFailure: row.on_failure === "keep" ? undefined : row.on_failure,
    charge: row.charge,
    ceiling: row.ceiling ?? undefined,
    notes: notesOf(row.notes),
    ...(row.one_time_nonces === null ? {} : { oneTimeNonces: noncesOf(row) }),
  };
}

function notesText(notes: PurchaseNotes = {}): string | null {
  const text = JSON.stringify(notes);
  return text === "{}" ? null : text;
}

/** Reads the column `notes`. */
export function notesOf(text: string | null): PurchaseNotes | undefined {
  return text === null ? undefined : JSON.parse(text);
}

/** Returns the one-time nonces that a payment uses up. */
export function noncesOf({ one_time_nonces: nonces }: Pick<PaymentRow, "one_time_nonces">): OneTimeNonce[] {
  return nonces === null ? [] : JSON.parse(nonces);
}

/** Reads the transaction from the JSON of a settlement response; empty for a payment that the operator closed. */
export function transactionOf(settlement: string | null): string | null {
  try {
    const { transaction } = JSON.parse(settlement ?? "{}") as { readonly transaction?: unknown };
    return typeof transaction === "string" ? transaction : null;
  } catch {
    return null;
  }
}
