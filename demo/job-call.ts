import type { JobCall } from "../src/gen/jobgate/v1/runner_pb.ts";
import type { Narrator } from "./narrator.ts";

/** Prints a JobCall with its metadata. */
export function printJobCall(narrator: Narrator, call: JobCall): void {
  narrator.table({
    call_id: String(call.callId),
    service_id: String(call.serviceId),
    job_id: String(call.jobId),
    attempt: String(call.attempt),
    body: Buffer.from(call.body).toString(),
  });
  narrator.say("metadata:");
  narrator.table(Object.fromEntries(Object.entries(call.metadata).sort()));
}
