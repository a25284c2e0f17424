import { createRegistry, type Message, toJsonString } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type { PaymentState as PaymentStateName } from "../core/payment.ts";
import { file_jobgate_v1_operator, PaymentState } from "../gen/jobgate/v1/operator_pb.ts";

export type {
  DeadLetter,
  GetDeadLetterResponse,
  GetPaymentResponse,
  GetTotalsResponse,
  Payment,
} from "../gen/jobgate/v1/operator_pb.ts";
export { DeadLetterStatus } from "../gen/jobgate/v1/operator_pb.ts";

const registry = createRegistry(file_jobgate_v1_operator);

/** How the API writes JSON: snake_case, and what is zero or empty is there too. u64 are strings. */
export const JSON_OPTIONS = { useProtoFieldName: true, alwaysEmitImplicit: true } as const;

/** One message of the operator's API as one line of JSON, the same as over HTTP. */
export function jsonLine(message: Message): string {
  const schema = registry.getMessage(message.$typeName);
  if (schema === undefined) throw new Error(`${message.$typeName} is no message of the operator's API`);
  return toJsonString(schema, message, JSON_OPTIONS);
}

/** ISO 8601 in UTC, to the second; a dash when there is none. */
export function timeText(timestamp: Timestamp | undefined): string {
  return timestamp === undefined ? "-" : `${timestampDate(timestamp).toISOString().slice(0, 19)}Z`;
}

/** The words for a payment's state that commands take. */
export const PAYMENT_STATES = {
  intent: PaymentState.INTENT,
  settled: PaymentState.SETTLED,
  failed: PaymentState.FAILED,
  unresolved: PaymentState.UNRESOLVED,
} as const satisfies Record<PaymentStateName, PaymentState>;

export type { PaymentStateName };

/** The word for a state; a dash for one that this version does not know. */
export function paymentStateText(state: PaymentState): string {
  return Object.entries(PAYMENT_STATES).find(([, known]) => known === state)?.[0] ?? "-";
}
