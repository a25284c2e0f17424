import type { HttpResponse } from "../../http/response.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";

/** 200 with what the runner gave back, byte for byte. */
export function resultResponse(
  { body, contentType }: JobResult,
  headers: HttpResponse["headers"] = {},
): HttpResponse {
  return {
    status: 200,
    headers: {
      "content-type": contentType,
      "cache-control": "no-store",
      // The runner's output is not the operator's page: a browser must neither guess its type nor run it.
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
      ...headers,
    },
    body,
  };
}
