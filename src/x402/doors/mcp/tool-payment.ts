import { decodePaymentSignatureHeader } from "@x402/core/http";
import { parsePaymentPayload } from "@x402/core/schemas";
import type { PaymentPayload, PaymentPayloadV1 } from "@x402/core/types";
import * as z from "zod";
import { GatewayError } from "../../../core/errors.ts";
import { isNestedDeeper, isObject } from "../../../core/objects.ts";
import type { HttpRequest, JobRequest } from "../../../http/request.ts";
import type { PaymentReader } from "../../purchase/checkout.ts";
import { type SignedPayment, toSignedPayment } from "../../wire/payment-header.ts";
import { type Challenge, canonical } from "../mpp/challenges.ts";
import { parseCredential } from "../mpp/credential.ts";
import type { MppDoor } from "../mpp/mpp-door.ts";
import { paramsAs } from "./params.ts";

type Meta = Readonly<Record<string, unknown>>;

const X402 = "x402/payment";
const MPP = "org.paymentauth/credential";
/** Headers of the purchase, such as those of a caller or a quote. */
const HEADERS = "jobgate/headers";
const MAX_NESTING = 32;
/** Bound on a payment's JSON, as that of headers is at other doors: all of it is journalled and sent to the facilitator. */
const MAX_PAYMENT_CHARACTERS = 32 * 1024;

const headersSchema = z.record(z.string(), z.string());

/** A tool call as a request for its job. @throws RpcError for headers that are no strings */
export function toolRequest(
  request: HttpRequest,
  call: { readonly meta: Meta; readonly body: Uint8Array; readonly contentType: string },
): JobRequest {
  const sent = Object.entries(paramsAs(headersSchema, call.meta[HEADERS] ?? {}, `_meta["${HEADERS}"]`));
  const headers = Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), value]));
  // Only the proxy may say what the client's address is.
  const forwarded = request.headers["x-forwarded-for"];
  delete headers["x-forwarded-for"];
  if (typeof forwarded === "string") headers["x-forwarded-for"] = forwarded;
  headers["content-type"] = call.contentType;
  return {
    id: request.id,
    query: request.query,
    remoteAddress: request.remoteAddress,
    headers,
    headerValues: (name) => (headers[name] === undefined ? [] : [headers[name]]),
    async readBody(maxBytes) {
      if (call.body.byteLength <= maxBytes) return call.body;
      throw new GatewayError(
        "body_too_large",
        `The body is larger than ${maxBytes} bytes. Nothing was charged.`,
      );
    },
  };
}

/** The payment of a tool call, in the `_meta` of either protocol. */
export class ToolPayment implements PaymentReader {
  readonly #meta: Meta;
  readonly #mpp: MppDoor | undefined;
  /** Id of the challenge that is paid. */
  readonly challengeId: string | undefined;

  constructor(meta: Meta, mpp: MppDoor | undefined) {
    this.#meta = meta;
    this.#mpp = mpp;
    const { challenge } = (meta[MPP] ?? {}) as { readonly challenge?: { readonly id?: unknown } };
    this.challengeId = typeof challenge?.id === "string" ? challenge.id : undefined;
  }

  get isByMpp(): boolean {
    return this.#mpp !== undefined && this.#meta[MPP] !== undefined;
  }

  carriesPayment(): boolean {
    return this.isByMpp || this.#meta[X402] !== undefined;
  }

  readPayment(): SignedPayment | undefined {
    if (!this.carriesPayment()) return undefined;
    if (this.isByMpp && this.#meta[X402] !== undefined)
      throw invalid("_meta holds an x402 payment and an MPP credential: send one of them.");
    return this.isByMpp ? this.#readCredential() : readX402(this.#meta[X402]);
  }

  #readCredential(): SignedPayment | undefined {
    const sent = this.#meta[MPP];
    const credential: { readonly challenge?: { readonly request?: unknown } } = isObject(sent) ? sent : {};
    const request = credential.challenge?.request;
    // Over JSON-RPC a challenge holds its request as plain JSON.
    const challenge =
      typeof request === "object" && !isNestedDeeper(request, MAX_NESTING)
        ? { ...credential.challenge, request: canonical(request) }
        : credential.challenge;
    return this.#mpp?.toPayment(parseCredential({ ...credential, challenge }));
  }
}

/** Returns a challenge in the form of JSON-RPC. */
export function plainChallenge({ request, ...challenge }: Challenge): object {
  return { ...challenge, request: JSON.parse(Buffer.from(request, "base64url").toString()) };
}

function readX402(value: unknown): SignedPayment {
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
  return toSignedPayment(parsed.data as PaymentPayload | PaymentPayloadV1, `_meta["${X402}"]`);
}

function invalid(message: string): GatewayError {
  return new GatewayError("invalid_payment", `${message} Nothing was charged.`);
}
