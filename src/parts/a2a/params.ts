import * as z from "zod";

const object = z.record(z.string(), z.unknown());
/** A field that clients of A2A 1.0 may send empty instead of leaving it out. */
const name = (max: number) =>
  z
    .string()
    .max(max)
    .optional()
    .transform((text) => (text === "" ? undefined : text));

/** A part of a message, as A2A 0.3 and 1.0 have it. */
const part = z.object({
  text: z.string().optional(),
  data: z.unknown().optional(),
  /** Base64. */
  raw: z.string().optional(),
  url: z.string().optional(),
  mediaType: name(256),
  file: z
    .object({ bytes: z.string().optional(), uri: z.string().optional(), mimeType: z.string().optional() })
    .optional(),
  metadata: object.optional(),
});

export type SentPart = z.infer<typeof part>;

const message = z.object({
  contextId: name(64),
  taskId: name(512),
  role: z.enum(["user", "ROLE_USER"], 'must be "user" or "ROLE_USER"').default("user"),
  parts: z.array(part).min(1).max(64),
  metadata: object.optional().transform((metadata) => metadata ?? {}),
});

export type SentMessage = z.infer<typeof message>;

/** Parameters that jobgate reads, by method. Unknown parameters are left out. */
export const PARAMS = {
  message: z.object({
    message,
    configuration: z
      .object({ blocking: z.boolean().optional(), returnImmediately: z.boolean().optional() })
      .optional(),
    metadata: object.optional(),
  }),
  task: z.object({ id: z.string().max(512) }),
};
