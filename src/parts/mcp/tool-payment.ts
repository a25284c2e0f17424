import { decodePaymentSignatureHeader } from "@x402/core/http";
import { parsePaymentPayload } from "@x402/core/schemas";
import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper } from "../../core/objects.ts";
import type { HttpRequest, JobRequest } from "../../http/request.ts";
import type { MessageDoor, Meta } from "../../x402/doors/door.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import type { PaymentReader } from "../../x402/purchase/checkout.ts";
import { toSignedPayment } from "../../x402/wire/payment-header.ts";
import { paramsAs } from "./params.ts";

const X402 = "x402/payment";
/** Headers of the purchase, such as those of a caller. */
const HEADERS = "jobgate/headers";
const MAX_NESTING = 32;
/** Bound on a payment's JSON, as that of headers is at other doors: all of it is journalled and sent to the facilitator. */
const MAX_PAYMENT_CHARACTERS = 32 * 1024;

const headersSchema = z.record(z.string(), z.string());

/** The request that a tool call's arguments make. */
export interface ToolInput extends Pick<JobRequest, "method" | "path" | "query"> {
  readonly body: Uint8Array;
  /** Undefined without a body. */
  readonly contentType: string | undefined;
}

/** A tool call as a request for its job. @throws RpcError for headers that are no strings */
export function toolRequest(
  request: HttpRequest,
  meta: Meta,
  { body, contentType, ...target }: ToolInput,
): JobRequest {
  const sent = Object.entries(paramsAs(headersSchema, meta[HEADERS] ?? {}, `_meta["${HEADERS}"]`));
  const headers = Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), value]));
  // Only the proxy may say what the client's address is.
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

/** The payment of a tool call in its `_meta`: over x402, or through another door for messages. */
export class ToolPayment implements PaymentReader {
  readonly #meta: Meta;
  readonly #methods: Methods;
  /** The other door, if the payment comes through it. */
  readonly door: MessageDoor | undefined;
  /** The body is in the message. */
  readonly bindsBody = true;

  constructor(meta: Meta, door: MessageDoor | undefined, methods: Methods) {
    this.#meta = meta;
    this.#methods = methods;
    this.door = door?.carriesPayment(meta) ? door : undefined;
  }

  carriesPayment(): boolean {
    return this.door !== undefined || this.#meta[X402] !== undefined;
  }

  readPayment(): SignedPayment | undefined {
    const paid = this.#meta[X402];
    if (this.door === undefined) return paid === undefined ? undefined : readX402(paid, this.#methods);
    if (paid !== undefined)
      throw invalid(`_meta holds an x402 payment and ${this.door.payment}: send one of them.`);
    return this.door.readPayment(this.#meta);
  }
}

function readX402(value: unknown, methods: Methods): SignedPayment {
  let payload = value;
  if (typeof value === "string") {
    try {
      payload = decodePaymentSignatureHeader(value);
    } catch {
      throw invalid(`_meta["${X402}"] is neither an object nor JSON in base64.`);
    }
  }
  if (isNestedDeeper(payload, MAX_NESTING)) throw invalid(`_meta["${X402}"] is nested too deep.`);
  if (JSON.stringify(payload).length > MAX_PAYMENT_CHARACTERS)
    throw invalid(`_meta["${X402}"] has more than ${MAX_PAYMENT_CHARACTERS} characters.`);
  const parsed = parsePaymentPayload(payload);
  if (!parsed.success) throw invalid(`_meta["${X402}"] is not an x402 payment payload.`);
  return toSignedPayment(parsed.data, `_meta["${X402}"]`, methods);
}

function invalid(message: string): GatewayError {
  return new GatewayError("invalid_payment", `${message} Nothing was charged.`);
}
