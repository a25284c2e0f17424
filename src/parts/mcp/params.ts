import * as z from "zod";

const object = z.record(z.string(), z.unknown());

/** Parameters that jobgate reads, by method. Unknown parameters are left out. */
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
