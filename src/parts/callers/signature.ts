import { hashMessage } from "viem";
import type { JobKey } from "../../core/job-call.ts";

/** The statement that a delegated caller signs. */
export interface CallerClaim extends JobKey {
  readonly body: Uint8Array;
  /** Hash of the whole request, at a job's own route. It replaces the body's hash. */
  readonly requestHash?: string | undefined;
  /** 1 to 128 visible ASCII characters. */
  readonly nonce: string;
  /** Unix seconds, as the decimal that was sent. */
  readonly expiry: string;
}

/**
 * Returns the text that a caller's wallet signs:
 * `x402-authorize:{service_id}:{job_index}:{body_hash}:{nonce}:{expiry_unix_secs}`, with the keccak-256 of the body in
 * hex without `0x`, or the request's hash.
 */
export async function callerClaimText(claim: CallerClaim): Promise<string> {
  const { serviceId, jobIndex, body, nonce, expiry } = claim;
  // This library uses WebAssembly, because viem's keccak blocks the event loop for 75 ms on a body of 1 MiB.
  const { keccak } = await import("hash-wasm");
  const hash = claim.requestHash ?? (await keccak(body, 256));
  return `x402-authorize:${serviceId}:${jobIndex}:${hash}:${nonce}:${expiry}`;
}

/** Returns the EIP-191 hash of {@link callerClaimText}, which is signed. */
export async function callerClaimHash(claim: CallerClaim): Promise<`0x${string}`> {
  return hashMessage(await callerClaimText(claim));
}
