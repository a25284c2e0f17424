import { decodePaymentSignatureHeader } from "@x402/core/http";
import { parsePaymentPayload } from "@x402/core/schemas";
import type { PaymentPayload, PaymentPayloadV1 } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper } from "../../core/objects.ts";
import { printable } from "../../core/printable.ts";
import type { JobRequest } from "../../http/request.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { Methods } from "../methods/methods.ts";
import { readPaymentIdentifier } from "./payment-identifier.ts";
import { v1NetworkName } from "./v1-networks.ts";

const V2_HEADER = "payment-signature";
const V1_HEADER = "x-payment";

/** Bound on nesting; a payment needs 4. JSON nested thousands deep can be parsed, but not serialized again. */
const MAX_NESTING = 32;
/** Reports whether a request carries a payment, well-formed or not. */
export function carriesPayment({ headers }: JobRequest): boolean {
  return (headers[V2_HEADER] ?? headers[V1_HEADER]) !== undefined;
}

/**
 * Reads the payment of a request from `PAYMENT-SIGNATURE` (v2) or `X-PAYMENT` (v1), or both if they agree.
 * @returns undefined when there is none
 * @throws GatewayError `invalid_payment`
 */
export function readPayment(request: JobRequest, methods: Methods): SignedPayment | undefined {
  if (!carriesPayment(request)) return undefined;
  const v2 = readHeader(request, V2_HEADER, 2, methods);
  const v1 = readHeader(request, V1_HEADER, 1, methods);
  if (v1 !== undefined && v2 !== undefined && !agree(v1, v2)) {
    throw invalid("PAYMENT-SIGNATURE and X-PAYMENT hold different payments: send one of them.");
  }
  return v2 ?? v1;
}

/** Returns the version of the payment that {@link readPayment} returns. */
export function paymentVersion({ headers }: JobRequest): 1 | 2 {
  return headers[V2_HEADER] === undefined ? 1 : 2;
}

function readHeader(
  request: JobRequest,
  header: string,
  version: 1 | 2,
  methods: Methods,
): SignedPayment | undefined {
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
  return toSignedPayment(payload, name, methods);
}

/** @param name of the header, for the refusal @throws GatewayError `invalid_payment` */
export function toSignedPayment(
  payload: PaymentPayload | PaymentPayloadV1,
  name: string,
  methods: Methods,
): SignedPayment {
  const method = methods.ofPayload(payload.payload);
  const { schema, kind } = method.payload;
  const parsed = schema.safeParse(payload.payload);
  if (!parsed.success) throw invalid(`${name}: payload is not ${kind}. ${firstIssue(parsed.error)}`);
  if (!isV2(payload)) {
    const { scheme, network } = payload;
    return { x402Version: 1, method, scheme, network, ...parsed.data, payload };
  }
  const { accepted } = payload;
  const paymentId = readPaymentIdentifier(payload);
  return {
    x402Version: 2,
    method,
    scheme: accepted.scheme,
    network: accepted.network,
    accepted,
    ...parsed.data,
    ...(paymentId === undefined ? {} : { paymentId }),
    payload,
  };
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
