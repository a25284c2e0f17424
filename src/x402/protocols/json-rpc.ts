import { isSafeNumber, LosslessNumber, parse } from "lossless-json";
import * as z from "zod";
import type { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper } from "../../core/objects.ts";

type Json = Readonly<Record<string, unknown>>;

/** A JSON-RPC 2.0 request, or a notification if it has no id. */
export interface RpcMessage {
  readonly id?: string | number | undefined;
  readonly method: string;
  readonly params: Json;
  /** The parameters with all digits of their numbers: a number that a double would round is a `LosslessNumber`. */
  readonly exactParams: Json;
  /** `_meta` of the parameters, or of the message if the parameters have no `_meta`. */
  readonly meta: Json;
}

export const RPC = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  refused: -32000,
} as const;

/** An error that the client gets instead of a result. */
export class RpcError extends Error {
  override readonly name = "RpcError";
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Bound on nesting: serializing a deeper value could overflow the stack. */
const MAX_NESTING = 64;
/** Matches half of a surrogate pair as `JSON.stringify` writes it, because UTF-8 cannot encode it. */
const HALF_CHARACTER = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;

const record = z.record(z.string(), z.unknown());
const metaSchema = z.looseObject({ progressToken: z.union([z.string(), z.number()]).optional() });
const messageSchema = z.object({
  jsonrpc: z.literal("2.0"),
  // The answer has the id with all of its digits.
  id: z
    .union([z.string().max(256), z.number().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER)])
    .optional(),
  method: z.string().max(256).optional(),
  params: record.optional(),
  _meta: record.optional(),
});

/** Parses a message. @returns undefined for the answer to a request, which jobgate never sends @throws RpcError */
export function parseMessage(body: Uint8Array): RpcMessage | undefined {
  let text: string;
  let json: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    json = JSON.parse(text);
  } catch {
    throw new RpcError(RPC.parseError, "The body is not JSON.");
  }
  if (isNestedDeeper(json, MAX_NESTING))
    throw new RpcError(RPC.invalidRequest, `The message is nested more than ${MAX_NESTING} levels deep.`);
  if (/\\u[dD]/.test(text) && HALF_CHARACTER.test(JSON.stringify(json)))
    throw new RpcError(RPC.invalidRequest, "The message has half of a surrogate pair in a string.");
  if (Array.isArray(json))
    throw new RpcError(
      RPC.invalidRequest,
      "The body is an array. Send one JSON-RPC 2.0 message, without a batch.",
    );
  const parsed = messageSchema.safeParse(json);
  if (!parsed.success) {
    const isId = parsed.error.issues[0]?.path[0] === "id";
    const wrong = isId
      ? " Its id is not a string of up to 256 characters, nor a number of up to 2^53 - 1."
      : "";
    throw new RpcError(RPC.invalidRequest, `The body is not one JSON-RPC 2.0 message.${wrong}`);
  }
  const { id, method, params = {}, _meta } = parsed.data;
  if (method === undefined) return undefined;
  const meta = metaSchema.safeParse(params._meta === undefined ? (_meta ?? {}) : params._meta);
  if (!meta.success)
    throw new RpcError(
      RPC.invalidParams,
      "_meta must be an object, and its progressToken a string or number.",
    );
  const { params: exactParams = {} } = exactJson(text) as { readonly params?: Json };
  return { id, method, params, exactParams, meta: meta.data };
}

/** @throws RpcError for a key that an object has twice, because two programs may read two different values */
function exactJson(text: string): unknown {
  const onDuplicateKey = ({ key }: { readonly key: string }) => {
    throw new RpcError(RPC.invalidRequest, `The key ${JSON.stringify(key).slice(0, 100)} is there twice.`);
  };
  const parseNumber = (digits: string) =>
    isSafeNumber(digits) ? Number(digits) : new LosslessNumber(digits);
  return parse(text, undefined, { parseNumber, onDuplicateKey });
}

/**
 * Returns parameters that have the types of a schema.
 * @throws RpcError for other parameters
 */
export function paramsAs<T>(schema: z.ZodType<T>, params: unknown, name = "params"): T {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const at = [name, ...(issue?.path ?? []).map(String)].join(".");
  throw new RpcError(RPC.invalidParams, `${at}: ${issue?.message ?? "is wrong"}.`);
}

export function rpcResult(id: RpcMessage["id"], result: unknown): object {
  return { jsonrpc: "2.0", id, result };
}

export function rpcError(id: RpcMessage["id"] | null, { code, message, data }: RpcError): object {
  return { jsonrpc: "2.0", id: id ?? null, error: { code, message, ...(data !== undefined && { data }) } };
}

/**
 * Returns the error that answers a refused request. The error has the refusal's code, and the time of `Retry-After`
 * over HTTP.
 */
export function refusalError({ code, message, retryable, details, headers }: GatewayError): RpcError {
  const secs = headers["retry-after"];
  const retryAfter = secs === undefined ? {} : { retry_after_secs: Number(secs) };
  const number = code === "internal_error" ? RPC.internalError : RPC.refused;
  return new RpcError(number, message, { code, retryable, ...retryAfter, ...details });
}
