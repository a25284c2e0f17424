import * as z from "zod";
import { isNestedDeeper } from "../../core/objects.ts";

type Json = Readonly<Record<string, unknown>>;

/** A JSON-RPC 2.0 request, or a notification if it has no id. */
export interface RpcMessage {
  readonly id?: string | number | undefined;
  readonly method: string;
  readonly params: Json;
  /** `_meta` of the parameters, or of the message where the parameters have none. */
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

const record = z.record(z.string(), z.unknown());
const metaSchema = z.looseObject({ progressToken: z.union([z.string(), z.number()]).optional() });
const messageSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string().max(256), z.number()]).optional(),
  method: z.string().max(256).optional(),
  params: record.optional(),
  _meta: record.optional(),
});

/** Parses a message. @returns undefined for the answer to a request, which jobgate never sends @throws RpcError */
export function parseMessage(body: Uint8Array): RpcMessage | undefined {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new RpcError(RPC.parseError, "The body is not JSON.");
  }
  if (isNestedDeeper(json, MAX_NESTING))
    throw new RpcError(RPC.invalidRequest, `The message is nested more than ${MAX_NESTING} levels deep.`);
  const parsed = messageSchema.safeParse(json);
  if (!parsed.success) throw new RpcError(RPC.invalidRequest, "The body is not one JSON-RPC 2.0 message.");
  const { id, method, params = {}, _meta } = parsed.data;
  if (method === undefined) return undefined;
  const meta = metaSchema.safeParse(params._meta === undefined ? (_meta ?? {}) : params._meta);
  if (!meta.success)
    throw new RpcError(
      RPC.invalidParams,
      "_meta must be an object, and its progressToken a string or number.",
    );
  return { id, method, params, meta: meta.data };
}

export function rpcResult(id: RpcMessage["id"], result: unknown): object {
  return { jsonrpc: "2.0", id, result };
}

export function rpcError(id: RpcMessage["id"] | null, { code, message, data }: RpcError): object {
  return { jsonrpc: "2.0", id: id ?? null, error: { code, message, ...(data !== undefined && { data }) } };
}
