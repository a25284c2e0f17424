import type { JobCall, JobCallEncoder, JobCallOrigin } from "../core/job-call.ts";

/** A JobCall as it is written: the ids as text, the rest inside the encoded bytes. */
export interface NewCall {
  readonly origin: JobCallOrigin;
  readonly jobId: string;
  readonly serviceId: string;
  readonly encoded: Uint8Array;
}

export function toNewCall(call: JobCall, encodeJobCall: JobCallEncoder): NewCall {
  return {
    origin: call.origin,
    jobId: String(call.jobId),
    serviceId: String(call.serviceId),
    encoded: encodeJobCall(call),
  };
}
