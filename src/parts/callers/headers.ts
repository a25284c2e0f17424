import { parseSignatureHex } from "../../chain/account-signature.ts";
import { type ErrorCode, GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobRequest } from "../../http/request.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";

const MAX_EXPIRY_AHEAD_SECS = 24 * 60 * 60;

/** Headers of a delegated caller, with their error codes. */
const CALLER = {
  name: "X-CHAIN-CALLER",
  about: "Address of the permitted caller",
  missing: "missing_caller",
  invalid: "invalid_caller",
} as const;
const SIGNATURE = {
  name: "X-CHAIN-CALLER-SIG",
  about:
    "Hex of the caller's EIP-191 signature over x402-authorize:{service_id}:{job_index}:{body_hash}:{nonce}:{expiry}, where {body_hash} is the keccak-256 of the body in hex, and at a route that of the whole request",
  missing: "missing_signature",
  invalid: "invalid_signature",
} as const;
const NONCE = {
  name: "X-CHAIN-CALLER-NONCE",
  about: "1 to 128 visible ASCII characters, new for each purchase",
  missing: "missing_signature_nonce",
  invalid: "invalid_signature_nonce",
} as const;
const EXPIRY = {
  name: "X-CHAIN-CALLER-EXPIRY",
  about: "Unix seconds until which the signature is good, at most 24 hours ahead",
  missing: "missing_signature_expiry",
  invalid: "invalid_signature_expiry",
} as const;

const HEADERS = [CALLER, SIGNATURE, NONCE, EXPIRY];

/** Names of the caller's headers, in the spellings of jobgate and of the SDK. */
export const CALLER_HEADERS: readonly string[] = HEADERS.flatMap(({ name }) => [name, sdkName(name)]);

/** Returns the caller's headers of requests for a job, with their descriptions. */
export function callerHeadersOf({ serviceId, jobIndex }: JobKey): Readonly<Record<string, string>> {
  const own = (about: string) => about.replace("{service_id}:{job_index}", `${serviceId}:${jobIndex}`);
  return Object.fromEntries(HEADERS.map(({ name, about }) => [name, own(about)]));
}

interface CallerHeader {
  readonly name: string;
  readonly missing: ErrorCode;
  readonly invalid: ErrorCode;
}

/** Returns the payer of a payment that answers an offer for callers. Such offers are only in tokens of EVM chains. */
export function evmPayerOf({ from }: Pick<SignedPayment, "from">): `0x${string}` {
  return from as `0x${string}`;
}

/** Returns the caller's address, lower case. @throws GatewayError */
export function readCaller(request: JobRequest): `0x${string}` {
  const caller = readOnce(request, CALLER);
  if (!/^0x[0-9a-fA-F]{40}$/.test(caller)) throw invalid(CALLER, "must be an address: 0x and 40 hex digits");
  return caller.toLowerCase() as `0x${string}`;
}

/** Returns the bytes of the signature, of any length. @throws GatewayError */
export function readCallerSignature(request: JobRequest): `0x${string}` {
  const signature = parseSignatureHex(readOnce(request, SIGNATURE));
  if (signature === undefined) throw invalid(SIGNATURE, "must be hex, with or without 0x");
  return signature;
}

/** @throws GatewayError */
export function readCallerNonce(request: JobRequest): string {
  const nonce = readOnce(request, NONCE);
  if (!/^[\x21-\x7e]{1,128}$/.test(nonce)) throw invalid(NONCE, "must be 1 to 128 visible ASCII characters");
  return nonce;
}

/** Returns Unix seconds, as the decimal that was signed. The time may have passed. @throws GatewayError */
export function readCallerExpiry(request: JobRequest, nowMs: number): string {
  const expiry = readOnce(request, EXPIRY);
  if (!/^(0|[1-9][0-9]*)$/.test(expiry)) throw invalid(EXPIRY, "must be Unix seconds as a decimal");
  if (Number(expiry) > Math.floor(nowMs / 1000) + MAX_EXPIRY_AHEAD_SECS) {
    throw invalid(EXPIRY, "is more than 24 hours ahead: sign with an earlier one");
  }
  return expiry;
}

/**
 * Returns the only value of a header, under its own name or the SDK's name. Two values are refused, because it cannot be
 * known which of them was signed.
 */
function readOnce(request: JobRequest, header: CallerHeader): string {
  const alias = sdkName(header.name);
  const value = readOnlyValue(request, header.name, header);
  const aliasValue = readOnlyValue(request, alias, header);
  if (value !== "" && aliasValue !== "" && value !== aliasValue) {
    throw invalid(header, `and ${alias} differ: send only one of them`);
  }
  if (value !== "" || aliasValue !== "") return value || aliasValue;
  throw new GatewayError(header.missing, `This job needs the header ${header.name}.`);
}

function sdkName(name: string): string {
  return name.replace("X-CHAIN-", "X-TANGLE-");
}

function readOnlyValue(request: JobRequest, name: string, header: CallerHeader): string {
  const values = request.headerValues(name.toLowerCase());
  if (values.length > 1) throw invalid({ ...header, name }, `was sent ${values.length} times: send it once`);
  return values[0] ?? "";
}

function invalid({ name, invalid }: CallerHeader, what: string): GatewayError {
  return new GatewayError(invalid, `${name} ${what}.`);
}
