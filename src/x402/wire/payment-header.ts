import { createHash } from "node:crypto";
import { decodePaymentSignatureHeader } from "@x402/core/http";
import { parsePaymentPayload } from "@x402/core/schemas";
import type { PaymentPayload, PaymentPayloadV1, PaymentRequirements } from "@x402/core/types";
import { z } from "zod";
import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import { v1NetworkName } from "./v1-networks.ts";

/** A payment as the client signed it, in one shape for both protocol versions and both transfer methods. */
export interface SignedPayment {
  readonly x402Version: 1 | 2;
  readonly scheme: string;
  /** As the client named it: CAIP-2 in v2, a name in v1. */
  readonly network: string;
  /** The offer that a v2 client says it answers; a v1 client does not say. */
  readonly accepted?: PaymentRequirements;
  readonly transferMethod: "eip3009" | "permit2";
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
  /** Digest of all that was signed and of the signature: tells this very payment from every other. */
  readonly fingerprint: string;
  /** The whole payload, for the facilitator. */
  readonly payload: PaymentPayload | PaymentPayloadV1;
}

const V2_HEADER = "payment-signature";
const V1_HEADER = "x-payment";

/** A payment needs 4. What is nested thousands deep can be parsed, but not written as JSON again. */
const MAX_NESTING = 32;

const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/, "expected an address: 0x and 40 hex digits");
const uint = z
  .string()
  .regex(/^(0|[1-9][0-9]{0,77})$/, "expected a whole number as a decimal string")
  .transform((digits) => BigInt(digits));
/** 65 bytes for a plain account; longer for smart accounts (ERC-1271, ERC-6492). */
const signature = z
  .string()
  .regex(/^0x(?:[0-9a-fA-F]{2}){65,4096}$/, "expected a signature: 0x and at least 65 bytes of hex");

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
  .strict();

const permit2Payload = z
  .object({
    signature,
    permit2Authorization: z
      .object({
        from: address,
        permitted: z.object({ token: address, amount: uint }).strict(),
        spender: address,
        nonce: z.string().regex(/^(0|[1-9][0-9]{0,77})$/, "expected a whole number as a decimal string"),
        deadline: uint,
        witness: z.object({ to: address, validAfter: uint }).strict(),
      })
      .strict(),
  })
  .strict();

/**
 * Reads the payment of a request: `PAYMENT-SIGNATURE` (v2) or `X-PAYMENT` (v1), or both if they agree.
 * @returns undefined when there is none
 * @throws GatewayError `invalid_payment`
 */
export function readPayment(request: HttpRequest): SignedPayment | undefined {
  const v2 = readHeader(request, V2_HEADER, 2);
  const v1 = readHeader(request, V1_HEADER, 1);
  if (v1 !== undefined && v2 !== undefined && !agree(v1, v2)) {
    throw invalid("PAYMENT-SIGNATURE and X-PAYMENT hold different payments: send one of them.");
  }
  return v2 ?? v1;
}

function readHeader(request: HttpRequest, header: string, version: 1 | 2): SignedPayment | undefined {
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
  return normalise(payload, name);
}

function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isNestedDeeper(inner, levels - 1));
}

function normalise(payload: PaymentPayload | PaymentPayloadV1, name: string): SignedPayment {
  const envelope = isV2(payload)
    ? {
        x402Version: 2 as const,
        scheme: payload.accepted.scheme,
        network: payload.accepted.network,
        accepted: payload.accepted,
      }
    : { x402Version: 1 as const, scheme: payload.scheme, network: payload.network };
  const signed =
    "permit2Authorization" in payload.payload ? readPermit2(payload, name) : readEip3009(payload, name);
  return { ...envelope, ...signed, payload };
}

type Signed = Omit<SignedPayment, "x402Version" | "scheme" | "network" | "accepted" | "payload">;

function readEip3009({ payload }: PaymentPayload | PaymentPayloadV1, name: string): Signed {
  const parsed = eip3009Payload.safeParse(payload);
  if (!parsed.success)
    throw invalid(`${name}: payload is not an EIP-3009 authorization. ${firstIssue(parsed.error)}`);
  const { authorization, signature } = parsed.data;
  const fields = {
    transferMethod: "eip3009" as const,
    from: authorization.from.toLowerCase() as `0x${string}`,
    to: authorization.to.toLowerCase(),
    value: authorization.value,
    validAfter: authorization.validAfter,
    validBefore: authorization.validBefore,
    nonce: authorization.nonce.toLowerCase(),
  };
  return { ...fields, fingerprint: digestOf({ ...fields, signature }) };
}

function readPermit2({ payload }: PaymentPayload | PaymentPayloadV1, name: string): Signed {
  const parsed = permit2Payload.safeParse(payload);
  if (!parsed.success)
    throw invalid(`${name}: payload is not a Permit2 authorization. ${firstIssue(parsed.error)}`);
  const { permit2Authorization: permit, signature } = parsed.data;
  const fields = {
    transferMethod: "permit2" as const,
    from: permit.from.toLowerCase() as `0x${string}`,
    to: permit.witness.to.toLowerCase(),
    value: permit.permitted.amount,
    validAfter: permit.witness.validAfter,
    validBefore: permit.deadline,
    nonce: permit.nonce,
  };
  return { ...fields, fingerprint: digestOf({ ...fields, signature }) };
}

function digestOf(fields: Record<string, unknown> & { signature: string }): string {
  const text = JSON.stringify({ ...fields, signature: fields.signature.toLowerCase() }, (_key, value) =>
    typeof value === "bigint" ? value.toString() : value,
  );
  return createHash("sha256").update(text).digest("hex");
}

function agree(v1: SignedPayment, v2: SignedPayment): boolean {
  return (
    v1.fingerprint === v2.fingerprint && v1.scheme === v2.scheme && v1.network === v1NetworkName(v2.network)
  );
}

function isV2(payload: PaymentPayload | PaymentPayloadV1): payload is PaymentPayload {
  return payload.x402Version === 2;
}

function firstIssue({ issues }: z.ZodError): string {
  const issue = issues[0];
  return issue === undefined ? "" : `At ${issue.path.join(".") || "its top"}: ${issue.message}.`;
}

function invalid(message: string, cause?: unknown): GatewayError {
  return new GatewayError("invalid_payment", message, cause === undefined ? {} : { cause });
}
