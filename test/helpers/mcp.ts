import { decodePaymentSignatureHeader } from "@x402/core/http";
import { ERROR_KINDS, type ErrorCode } from "../../src/core/errors.ts";
import { post } from "./http-post.ts";
import { readBase64Json } from "./mpp.ts";

type Json = Record<string, unknown>;

/** Answer to a JSON-RPC request. */
export interface RpcAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly result?: Json & { readonly _meta?: Json; readonly structuredContent?: Json };
  readonly error?: { readonly code: number; readonly message: string; readonly data?: Json };
}

/** Sends a JSON-RPC message to an MCP server. */
export async function sendRpc(
  url: string,
  method: string,
  params: Json = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<RpcAnswer> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  return sendText(url, body, headers);
}

export async function sendText(
  url: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<RpcAnswer> {
  const response = await post(url, {
    body,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
    signal: AbortSignal.timeout(55_000),
  });
  const sent = await response.text();
  const isStream = response.headers.get("content-type") === "text/event-stream";
  // Progress comes before the answer.
  const text = isStream ? (sent.match(/^data: (.*)$/gm)?.at(-1) ?? "").slice("data: ".length) : sent;
  return { status: response.status, headers: response.headers, ...(text === "" ? {} : JSON.parse(text)) };
}

/**
 * Buys a job as a task, with the payment and the other headers of a request over HTTP.
 * @returns what the same request over HTTP would be answered
 */
export async function buyTool(
  url: string,
  call: {
    readonly name: string;
    readonly body: string;
    readonly headers: Readonly<Record<string, string>>;
  },
): Promise<Json> {
  const { "payment-signature": payment, authorization, ...headers } = call.headers;
  const meta = {
    ...(payment !== undefined && { "x402/payment": decodePaymentSignatureHeader(payment) }),
    ...(authorization !== undefined && {
      "org.paymentauth/credential": readBase64Json(authorization.slice("Payment ".length)),
    }),
    "jobgate/headers": headers,
  };
  const params = { name: call.name, arguments: { body: call.body }, task: {}, _meta: meta };
  const { result = {}, error } = await sendRpc(url, "tools/call", params);
  const refusal = error?.data ?? result.structuredContent;
  if (refusal?.code === undefined && error !== undefined) throw new Error(JSON.stringify(error));
  if (error === undefined && result.isError !== true) {
    const told = result._meta as Json & { "jobgate/call": Json };
    const { links: _, ...bought } = told["jobgate/call"];
    const { challengeId: _id, ...paymentReceipt } = (told["org.paymentauth/receipt"] ?? {}) as Json;
    if (authorization !== undefined) return { status: 202, ...bought, paymentReceipt };
    return { status: 202, ...bought, settlement: told["x402/payment-response"] };
  }
  const { code, charged, retryable, service_id, job_index } = refusal ?? {};
  const ids = service_id === undefined ? {} : { service_id, job_index };
  return { status: ERROR_KINDS[code as ErrorCode].status, code, charged, retryable, ...ids };
}
