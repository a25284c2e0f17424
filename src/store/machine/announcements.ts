import type { JobCallOrigin } from "../../core/job-call.ts";
import type { SoldPayment } from "../payment-row.ts";

/** Event for operators, and possibly for the buyer of a payment. */
export interface Announcement {
  /** Name of the event. */
  readonly event: string;
  readonly at: number;
  /** Describes the event. Called only if the event is announced. */
  readonly data: () => { readonly call_id: number; readonly [name: string]: unknown };
  /** JobCall whose buyer may also be notified; undefined if it was not bought, or if the event does not concern the buyer. */
  readonly boughtCall?: number | undefined;
  /** Removes from the description the fields that do not concern the buyer. */
  readonly forBuyer?: (data: object) => object;
}

/** Columns of a JobCall that ended. */
export interface EndedCall {
  readonly call_id: number;
  readonly origin: JobCallOrigin;
  readonly job_id: string;
  readonly service_id: string;
  readonly attempts: number;
  /** Null unless the JobCall has a key ({@link "../../core/job-call.ts".orderKeyOf}). */
  readonly order_key: string | null;
}

/** Columns that identify a JobCall. */
type NamedCall = Omit<EndedCall, "attempts" | "order_key">;

/** Announces the outcome of a JobCall. */
export function callEnded(call: NamedCall, status: string, at: number, httpStatus?: number): Announcement {
  const data = () => ({ ...describeCall(call), status, http_status: httpStatus });
  return { event: "call.finished", at, data, boughtCall: call.origin === "x402" ? call.call_id : undefined };
}

export function describeCall({ call_id, origin, service_id, job_id }: NamedCall) {
  // The IDs have more digits than a number can hold.
  return { call_id, origin, service_id: BigInt(service_id), job_id: BigInt(job_id) };
}

/** Returns the JobCall of a payment. */
export function callOf({ call_id, service_id, job_index }: SoldPayment): NamedCall {
  return { call_id, origin: "x402", service_id, job_id: String(job_index) };
}
