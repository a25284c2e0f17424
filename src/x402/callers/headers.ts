import { type ErrorCode, GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import { parseSignatureHex } from "./signature.ts";

const MAX_EXPIRY_AHEAD_SECS = 24 * 60 * 60;

/** Returns the address in `X-CHAIN-CALLER`, lower case. @throws GatewayError `missing_caller`, `invalid_caller` */
export function readCaller(request: HttpRequest): `0x${string}` {
  const header = { name: "X-CHAIN-CALLER", missing: "missing_caller", invalid: "invalid_caller" } as const;
  const caller = readOnce(request, header);
  if (!/^0x[0-9a-fA-F]{40}$/.test(caller)) throw invalid(header, "must be an address: 0x and 40 hex digits");
  return caller.toLowerCase() as `0x${string}`;
}

/** Returns the bytes in `X-CHAIN-CALLER-SIG`, of any length. @throws GatewayError `missing_signature`, `invalid_signature` */
export function readCallerSignature(request: HttpRequest): `0x${string}` {
  const header = {
    name: "X-CHAIN-CALLER-SIG",
    missing: "missing_signature",
    invalid: "invalid_signature",
  } as const;
  const signature = parseSignatureHex(readOnce(request, header));
  if (signature === undefined) throw invalid(header, "must be hex, with or without 0x");
  return signature;
}

/** Returns `X-CHAIN-CALLER-NONCE`. @throws GatewayError `missing_signature_nonce`, `invalid_signature_nonce` */
export function readCallerNonce(request: HttpRequest): string {
  const header = {
    name: "X-CHAIN-CALLER-NONCE",
    missing: "missing_signature_nonce",
    invalid: "invalid_signature_nonce",
  } as const;
  const nonce = readOnce(request, header);
  if (!/^[\x21-\x7e]{1,128}$/.test(nonce)) throw invalid(header, "must be 1 to 128 visible ASCII characters");
  return nonce;
}

/**
 * Returns the Unix seconds in `X-CHAIN-CALLER-EXPIRY`, as the decimal that was signed. They may have passed.
 * @throws GatewayError `missing_signature_expiry`, `invalid_signature_expiry`
 */
export function readCallerExpiry(request: HttpRequest, nowMs: number): string {
  const header = {
    name: "X-CHAIN-CALLER-EXPIRY",
    missing: "missing_signature_expiry",
    invalid: "invalid_signature_expiry",
  } as const;
  const expiry = readOnce(request, header);
  if (!/^(0|[1-9][0-9]*)$/.test(expiry)) throw invalid(header, "must be Unix seconds as a decimal");
  if (Number(expiry) > Math.floor(nowMs / 1000) + MAX_EXPIRY_AHEAD_SECS) {
    throw invalid(header, "is more than 24 hours ahead: sign with an earlier one");
  }
  return expiry;
}

/** A header of a delegated caller, with its error codes. */
interface CallerHeader {
  readonly name: string;
  readonly missing: ErrorCode;
  readonly invalid: ErrorCode;
}

/** Returns the only value of a header. Two values are refused: which of them was signed would be a guess. */
function readOnce(request: HttpRequest, header: CallerHeader): string {
  const values = request.headerValues(header.name.toLowerCase());
  if (values.length > 1) throw invalid(header, `was sent ${values.length} times: send it once`);
  const value = values[0] ?? "";
  if (value === "") throw new GatewayError(header.missing, `This job needs the header ${header.name}.`);
  return value;
}

function invalid({ name, invalid }: CallerHeader, what: string): GatewayError {
  return new GatewayError(invalid, `${name} ${what}.`);
}
