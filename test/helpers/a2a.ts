import { decodePaymentSignatureHeader } from "@x402/core/http";
import { ERROR_KINDS, type ErrorCode } from "../../src/core/errors.ts";
import { sendRpc } from "./mcp.ts";

type Json = Record<string, unknown>;

/**
 * Buys a job as a task, in one message with the payment and the other headers of a request over HTTP.
 * @returns what the same request over HTTP would be answered, without the receipt
 */
export async function buyTask(
  url: string,
  call: {
    readonly skillId: string;
    readonly body: string;
    readonly headers: Readonly<Record<string, string>>;
  },
): Promise<Json> {
  const { "payment-signature": payment, ...headers } = call.headers;
  const metadata = {
    skillId: call.skillId,
    ...(payment !== undefined && { "x402.payment.payload": decodePaymentSignatureHeader(payment) }),
    "jobgate/headers": headers,
  };
  const message = { messageId: "1", role: "user", parts: [{ kind: "text", text: call.body }], metadata };
  const configuration = { blocking: false };
  const { result = {}, error } = await sendRpc(url, "message/send", { message, configuration });
  if (error !== undefined && error.data?.code === undefined) throw new Error(JSON.stringify(error));
  const task = result as { readonly status?: { message: { metadata: Json } }; readonly metadata?: Json };
  const told = task.status?.message.metadata ?? {};
  const refusal = error?.data ?? told["jobgate/refusal"];
  if (refusal === undefined) {
    const call = task.metadata?.["jobgate/call"] as Json;
    const { call_id, access_token } = call;
    const [settlement] = told["x402.payment.receipts"] as object[];
    const authorized = told["x402.payment.status"] === "payment-verified" ? { payment: "authorized" } : {};
    return { status: 202, ...authorized, call_id, access_token, ...(settlement && { settlement }) };
  }
  const { code, charged, retryable, service_id, job_index } = refusal as Json;
  const ids = service_id === undefined ? {} : { service_id, job_index };
  return { status: ERROR_KINDS[code as ErrorCode].status, code, charged, retryable, ...ids };
}
