import { createHash } from "node:crypto";
import type { PaymentIntent } from "../../core/payment.ts";
import type { JobRequest } from "../../http/request.ts";

/** The request that a payment buys, as its row has it. */
export type RequestBinding = Pick<PaymentIntent, "bodyHash" | "boundHeaders">;

type BoundParts = Pick<JobRequest, "method" | "path" | "query" | "headerValues">;

/**
 * Binds a payment to the body of its request, and at a job's own route to the whole request: method, path, query, the
 * headers that are named, Content-Encoding and body, byte for byte. docs/selling.md has the form for those who sign it.
 * @param boundHeaders sorted names joined by commas; undefined for a job that is bought at its ids
 */
export function bindRequest(
  request: BoundParts,
  body: Uint8Array,
  boundHeaders: string | undefined,
): RequestBinding {
  const hash = createHash("sha256");
  if (boundHeaders !== undefined) hash.update(headOf(request, boundHeaders.split(",")), "latin1");
  return { bodyHash: hash.update(body).digest("hex"), boundHeaders };
}

/** Returns the hash of a whole request; undefined for a payment that is bound to a body alone. */
export function requestHashOf({ bodyHash, boundHeaders }: RequestBinding): string | undefined {
  return boundHeaders === undefined ? undefined : bodyHash;
}

/** No part of a request's head has a line break, so two different ones never have the same lines. */
function headOf(request: BoundParts, names: readonly string[]): string {
  const { method, path, query } = request;
  const bound = [...new Set([...names, "content-encoding"])].sort();
  const headers = bound.flatMap((name) => request.headerValues(name).map((value) => `${name}: ${value}`));
  return `${[method, path, query, ...headers].join("\n")}\n\n`;
}
