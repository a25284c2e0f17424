import { createHash } from "node:crypto";
import { decodePaymentSignatureHeader } from "@x402/core/http";
import { parsePaymentPayload } from "@x402/core/schemas";
import type { PaymentPayload, PaymentPayloadV1, PaymentRequirements } from "@x402/core/types";
import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { isNestedDeeper } from "../../core/objects.ts";
import type { TransferMethod } from "../../core/payment.ts";
import { printable } from "../../core/printable.ts";
import type { JobRequest } from "../../http/request.ts";
import { readPaymentIdentifier } from "./payment-identifier.ts";
import { v1NetworkName } from "./v1-networks.ts";

/** A signed payment, in one shape for both protocol versions and both transfer methods. */
export interface SignedPayment {
  readonly x402Version: 1 | 2;
  readonly scheme: string;
  /** CAIP-2 in v2, a name in v1. */
  readonly network: string;
  /** The offer that a v2 client names; v1 has no field for it. */
  readonly accepted?: PaymentRequirements;
  readonly transferMethod: TransferMethod;
  /** Lower case, as are the other addresses. */
  readonly from: `0x${string}`;
  readonly to: string;
  /** Token units. */
  readonly value: bigint;
  /** Unix seconds. */
  readonly validAfter: bigint;
  /** Unix seconds. */
  readonly validBefore: bigint;
  /** EIP-3009: 32 bytes as lower-case hex with `0x`. Permit2: decimal. */
  readonly nonce: string;
  /** Signed in a Permit2 payment. EIP-3009 needs neither: the token checks the signature and moves itself. Lower case. */
  readonly permit2?: {
    readonly token: string;
    readonly spender: string;
    /** The only address that can settle a payment by use. */
    readonly facilitator?: string;
  };
  /** Digest of the signed fields and the signature: identifies this very payment. */
  readonly fingerprint: string;
  /** Chosen by the client for all payments of one purchase. Not signed. */
  readonly paymentId?: string;
  /** The whole payload, for the facilitator. */
  readonly payload: PaymentPayload | PaymentPayloadV1;
  /** Checks that the payment was asked for this purchase. @throws GatewayError `payment_mismatch` */
  readonly requireAskedFor?: (purchase: JobKey & { readonly body: Uint8Array }) => void;
}

const V2_HEADER = "payment-signature";
const V1_HEADER = "x-payment";

/** Bound on nesting; a payment needs 4. JSON nested thousands deep can be parsed, but not serialized again. */
const MAX_NESTING = 32;
const MAX_U256 = 2n ** 256n - 1n;

const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/, "expected an address: 0x and 40 hex digits");
/** Without leading zeros, so that one number has one spelling. */
const decimal = z
  .string()
  .refine(
    (digits) => /^(0|[1-9][0-9]{0,77})$/.test(digits) && BigInt(digits) <= MAX_U256,
    "expected a whole number below 2^256 as a decimal string",
  );
const uint = decimal.transform((digits) => BigInt(digits));
/** 65 bytes for a plain account. A smart account's contract decides (ERC-1271): none may do, and ERC-6492 needs many. */
const signature = z
  .string()
  .regex(/^0x(?:[0-9a-fA-F]{2}){0,4096}$/, "expected a signature: 0x and at most 4096 bytes of hex");

const eip3009Payload = z
  .object({
    signature,
    authorization: z
      .object({
        from: address,
        to: address,
        value: uint,
        validAfter: uint,
        validBefore: uint,
        nonce: z.string().regex(/^0x[0-9a-fA-F]{64}$/, "expected 0x and 64 hex digits"),
      })
      .strict(),
  })
  .strict()
  .transform(({ signature, authorization: { from, to, value, validAfter, validBefore, nonce } }) =>
    withFingerprint(signature, {
      transferMethod: "eip3009",
      from: lowerCase(from),
      to: lowerCase(to),
      value,
      validAfter,
      validBefore,
      nonce: lowerCase(nonce),
    }),
  );

const permit2Payload = z
  .object({
    signature,
    permit2Authorization: z
      .object({
        from: address,
        permitted: z.object({ token: address, amount: uint }).strict(),
        spender: address,
        nonce: decimal,
        deadline: uint,
        witness: z.object({ to: address, facilitator: address.optional(), validAfter: uint }).strict(),
      })
      .strict(),
  })
  .strict()
  .transform(({ signature, permit2Authorization: permit }) =>
    withFingerprint(signature, {
      transferMethod: "permit2",
      from: lowerCase(permit.from),
      to: lowerCase(permit.witness.to),
      value: permit.permitted.amount,
      validAfter: permit.witness.validAfter,
      validBefore: permit.deadline,
      nonce: permit.nonce,
      permit2: {
        token: lowerCase(permit.permitted.token),
        spender: lowerCase(permit.spender),
        ...(permit.witness.facilitator && { facilitator: lowerCase(permit.witness.facilitator) }),
      },
    }),
  );

/** Reports whether a request carries a payment, well-formed or not. */
export function carriesPayment({ headers }: JobRequest): boolean {
  return (headers[V2_HEADER] ?? headers[V1_HEADER]) !== undefined;
}

/**
 * Reads the payment of a request from `PAYMENT-SIGNATURE` (v2) or `X-PAYMENT` (v1), or both if they agree.
 * @returns undefined when there is none
 * @throws GatewayError `invalid_payment`
 */
export function readPayment(request: JobRequest): SignedPayment | undefined {
  if (!carriesPayment(request)) return undefined;
  const v2 = readHeader(request, V2_HEADER, 2);
  const v1 = readHeader(request, V1_HEADER, 1);
  if (v1 !== undefined && v2 !== undefined && !agree(v1, v2)) {
    throw invalid("PAYMENT-SIGNATURE and X-PAYMENT hold different payments: send one of them.");
  }
  return v2 ?? v1;
}

/** Returns the version of the payment that {@link readPayment} returns. */
export function paymentVersion({ headers }: JobRequest): 1 | 2 {
  return headers[V2_HEADER] === undefined ? 1 : 2;
}

function readHeader(request: JobRequest, header: string, version: 1 | 2): SignedPayment | undefined {
  const values = request.headerValues(header);
  const value = values[0];
  if (value === undefined) return undefined;
  const name = header.toUpperCase();
  if (values.length > 1) throw invalid(`${name} was sent ${values.length} times: send it once.`);

  let decoded: unknown;
  try {
    decoded = decodePaymentSignatureHeader(value);
  } catch (cause) {
    throw invalid(`${name} is not JSON in base64.`, cause);
  }
  if (isNestedDeeper(decoded, MAX_NESTING))
    throw invalid(`${name} is nested more than ${MAX_NESTING} levels deep.`);
  const parsed = parsePaymentPayload(decoded);
  if (!parsed.success) throw invalid(`${name} is not an x402 payment payload. ${firstIssue(parsed.error)}`);
  const payload = parsed.data as PaymentPayload | PaymentPayloadV1;
  if (payload.x402Version !== version) {
    throw invalid(`${name} carries x402 version ${version}, but its payload says ${payload.x402Version}.`);
  }
  return toSignedPayment(payload, name);
}

/** @param name of the header, for the refusal @throws GatewayError `invalid_payment` */
export function toSignedPayment(payload: PaymentPayload | PaymentPayloadV1, name: string): SignedPayment {
  const isPermit2 = "permit2Authorization" in payload.payload;
  const parsed = (isPermit2 ? permit2Payload : eip3009Payload).safeParse(payload.payload);
  if (!parsed.success) {
    const kind = isPermit2 ? "a Permit2" : "an EIP-3009";
    throw invalid(`${name}: payload is not ${kind} authorization. ${firstIssue(parsed.error)}`);
  }
  if (!isV2(payload)) {
    return { x402Version: 1, scheme: payload.scheme, network: payload.network, ...parsed.data, payload };
  }
  const { accepted } = payload;
  const paymentId = readPaymentIdentifier(payload);
  return {
    x402Version: 2,
    scheme: accepted.scheme,
    network: accepted.network,
    accepted,
    ...parsed.data,
    ...(paymentId === undefined ? {} : { paymentId }),
    payload,
  };
}

type SignedFields = Pick<
  SignedPayment,
  "transferMethod" | "from" | "to" | "value" | "validAfter" | "validBefore" | "nonce" | "permit2"
>;

function withFingerprint(signature: string, fields: SignedFields): SignedFields & { fingerprint: string } {
  const text = JSON.stringify({ ...fields, signature: signature.toLowerCase() }, (_key, value) =>
    typeof value === "bigint" ? value.toString() : value,
  );
  return { ...fields, fingerprint: createHash("sha256").update(text).digest("hex") };
}

function lowerCase(hex: string): `0x${string}` {
  return hex.toLowerCase() as `0x${string}`;
}

function agree(v1: SignedPayment, v2: SignedPayment): boolean {
  return (
    v1.fingerprint === v2.fingerprint && v1.scheme === v2.scheme && v1.network === v1NetworkName(v2.network)
  );
}

function isV2(payload: PaymentPayload | PaymentPayloadV1): payload is PaymentPayload {
  return payload.x402Version === 2;
}

/** Describes the first issue of an error, of this zod or of the one that @x402/core has. */
function firstIssue(error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] }): string {
  const issue = error.issues[0];
  if (issue === undefined) return "";
  // The path and some messages repeat names of the sender's.
  return printable(`At ${issue.path.map(String).join(".") || "its top"}: ${issue.message}.`);
}

function invalid(message: string, cause?: unknown): GatewayError {
  return new GatewayError("invalid_payment", message, cause === undefined ? {} : { cause });
}
