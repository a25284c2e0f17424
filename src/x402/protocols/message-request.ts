import { decodePaymentSignatureHeader } from "@x402/core/http";
import { parsePaymentPayload } from "@x402/core/schemas";
import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper } from "../../core/objects.ts";
import type { HttpRequest, JobRequest } from "../../http/request.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { Methods } from "../methods/methods.ts";
import { toSignedPayment } from "../wire/payment-header.ts";
import { paramsAs, RPC, RpcError } from "./json-rpc.ts";
import type { Meta } from "./protocol.ts";

/** Name of the metadata that holds the headers of a purchase, such as `X-CHAIN-CALLER`. */
export const HEADERS = "jobgate/headers";
const MAX_NESTING = 32;
/**
 * Bound on a payment's JSON, because all of it is journalled and sent to the facilitator. Other protocols carry it in a
 * bounded header.
 */
const MAX_PAYMENT_CHARACTERS = 32 * 1024;

const headersSchema = z.record(z.string(), z.string());

/** The request for a job that a message makes. */
export interface MessageInput extends Pick<JobRequest, "method" | "path" | "query"> {
  readonly body: Uint8Array;
  /** Undefined if there is no body. */
  readonly contentType: string | undefined;
}

/**
 * Reads the headers of the purchase in the metadata of a message. @throws RpcError for headers that are not strings, or
 * occur twice
 */
export function headersIn(meta: Meta, name: string): Readonly<Record<string, string>> {
  const at = `${name}["${HEADERS}"]`;
  const headers = new Map<string, string>();
  for (const [sent, value] of Object.entries(paramsAs(headersSchema, meta[HEADERS] ?? {}, at))) {
    const header = sent.toLowerCase();
    if (headers.has(header)) throw new RpcError(RPC.invalidParams, `${at} has ${header} twice.`);
    headers.set(header, value);
  }
  return Object.fromEntries(headers);
}

/** Returns a message as a request for its job. @param sent headers of the purchase, by lower-case name */
export function messageRequest(
  request: HttpRequest,
  sent: Readonly<Record<string, string>>,
  { body, contentType, ...target }: MessageInput,
): JobRequest {
  const headers: Record<string, string> = { ...sent };
  // Only a proxy may name the client's address.
  const forwarded = request.headers["x-forwarded-for"];
  delete headers["x-forwarded-for"];
  if (typeof forwarded === "string") headers["x-forwarded-for"] = forwarded;
  if (contentType === undefined) delete headers["content-type"];
  else headers["content-type"] = contentType;
  return {
    id: request.id,
    ...target,
    remoteAddress: request.remoteAddress,
    headers,
    headerValues: (name) => (headers[name] === undefined ? [] : [headers[name]]),
    async readBody(maxBytes) {
      if (body.byteLength <= maxBytes) return body;
      throw new GatewayError(
        "body_too_large",
        `The body is larger than ${maxBytes} bytes. Nothing was charged.`,
      );
    },
  };
}

/**
 * Reads a payment of x402 in a message: an object, or its JSON in base64.
 * @param name of the field, for the refusal
 * @throws GatewayError `invalid_payment`
 */
export function readMessagePayment(value: unknown, name: string, methods: Methods): SignedPayment {
  let payload = value;
  if (typeof value === "string") {
    try {
      payload = decodePaymentSignatureHeader(value);
    } catch {
      throw invalid(`${name} is neither an object nor JSON in base64.`);
    }
  }
  if (isNestedDeeper(payload, MAX_NESTING)) throw invalid(`${name} is nested too deep.`);
  if (JSON.stringify(payload).length > MAX_PAYMENT_CHARACTERS)
    throw invalid(`${name} has more than ${MAX_PAYMENT_CHARACTERS} characters.`);
  const parsed = parsePaymentPayload(payload);
  if (!parsed.success) throw invalid(`${name} is not an x402 payment payload.`);
  return toSignedPayment(parsed.data, name, methods);
}

function invalid(message: string): GatewayError {
  return new GatewayError("invalid_payment", `${message} Nothing was charged.`);
}
