import * as z from "zod";
import { RPC, RpcError } from "./json-rpc.ts";

const object = z.record(z.string(), z.unknown());

/** Parameters that jobgate reads, by method. Unknown ones are left out. */
export const PARAMS = {
  initialize: z.object({
    protocolVersion: z.string().optional(),
    capabilities: z.object({ experimental: z.object({ payment: object.optional() }).optional() }).optional(),
  }),
  listTools: z.object({
    cursor: z
      .string()
      .regex(/^\d{1,9}$/, "is unknown")
      .optional(),
  }),
  callTool: z.object({
    name: z.string(),
    arguments: z.unknown().optional(),
    task: z.object({ ttl: z.number().optional() }).optional(),
  }),
  task: z.object({ taskId: z.string() }),
};

/** Checks the types of parameters: a list with a string in it is no string. @throws RpcError */
export function paramsAs<T>(schema: z.ZodType<T>, params: unknown, name = "params"): T {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const at = [name, ...(issue?.path ?? []).map(String)].join(".");
  throw new RpcError(RPC.invalidParams, `${at}: ${issue?.message ?? "is wrong"}.`);
}
