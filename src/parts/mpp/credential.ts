import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper } from "../../core/objects.ts";
import type { JobRequest } from "../../http/request.ts";
import type { Challenge } from "./challenges.ts";

/** Answer to a challenge, before its method has read the payload. */
export interface Credential {
  readonly challenge: Challenge;
  /** Decentralized identifier of the payer. */
  readonly source?: string | undefined;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Bound on nesting; a credential needs 3. */
const MAX_NESTING = 32;
const SCHEME = /^payment(?: +|$)/i;

const parameter = z.string().max(16_384);
const credentialSchema = z.object({
  challenge: z.object({
    id: parameter,
    realm: parameter,
    method: parameter,
    intent: parameter,
    request: parameter,
    expires: parameter.optional(),
    digest: parameter.optional(),
    opaque: parameter.optional(),
  }),
  source: parameter.optional(),
  payload: z.record(z.string(), z.unknown()),
});

/** Reports whether a request has `Authorization: Payment`, well-formed or not. */
export function carriesCredential(request: JobRequest): boolean {
  if (request.headers.authorization === undefined) return false;
  return request.headerValues("authorization").some((value) => SCHEME.test(value));
}

/** Reads the request's `Authorization: Payment`. @throws GatewayError `malformed_credential` */
export function readCredential(request: JobRequest): Credential | undefined {
  if (!carriesCredential(request)) return undefined;
  const [value = "", ...more] = request.headerValues("authorization");
  if (more.length > 0) throw malformed(`was sent ${more.length + 1} times: send it once`);
  return parseCredential(readJson(value.replace(SCHEME, ""), "it"));
}

/** Checks the shape of a credential. @throws GatewayError `malformed_credential` */
export function parseCredential(value: unknown): Credential {
  if (isNestedDeeper(value, MAX_NESTING)) throw malformed(`is nested more than ${MAX_NESTING} levels deep`);
  return parseAs(credentialSchema, value, "it");
}

/**
 * Reads the purchase's name from `Idempotency-Key`: all payments under one key are one purchase.
 * @throws GatewayError `invalid_payment`
 */
export function readIdempotencyKey(request: JobRequest): string | undefined {
  const [key, ...more] = request.headerValues("idempotency-key");
  if (key === undefined) return undefined;
  if (more.length > 0 || !/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new GatewayError(
      "invalid_payment",
      "Idempotency-Key must be sent once, with 1 to 255 visible ASCII characters. Nothing was charged.",
    );
  }
  return key;
}

/** Parses JSON in base64url. @param name of the part, for the refusal @throws GatewayError `malformed_credential` */
export function readJson(text: string, name: string): unknown {
  if (!/^[\w-]+={0,2}$/.test(text)) throw malformed(`is wrong: ${name} is not base64url`);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "base64url")));
  } catch (cause) {
    throw malformed(`is wrong: ${name} is not JSON in base64url`, cause);
  }
}

/** Checks a part against its schema. @throws GatewayError `malformed_credential` */
export function parseAs<T>(schema: z.ZodType<T>, value: unknown, name: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const at = issue?.path.map(String).join(".") || "its top";
  throw malformed(`is wrong: at ${at} of ${name}: ${issue?.message}`);
}

export function malformed(what: string, cause?: unknown): GatewayError {
  return new GatewayError("malformed_credential", `Authorization: Payment ${what}. Nothing was charged.`, {
    ...(cause === undefined ? {} : { cause }),
  });
}
