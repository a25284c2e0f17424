import { parsePaymentPayload } from "@x402/core/schemas";
import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper, isObject } from "../../core/objects.ts";
import { printable } from "../../core/printable.ts";
import type { JobRequest } from "../../http/request.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { Methods } from "../methods/methods.ts";
import type { Payload, Versions, WireVersion } from "./version.ts";

/** Bound on nesting; a payment needs 4. JSON nested thousands deep can be parsed, but not serialized again. */
const MAX_NESTING = 32;

/** Reports whether a request carries a payment, well-formed or not. */
export function carriesPayment(request: JobRequest, versions: Versions): boolean {
  return versionOf(request, versions) !== undefined;
}

/** Returns the version of the payment that {@link readPayment} returns; undefined if there is no payment. */
export function versionOf({ headers }: JobRequest, versions: Versions): WireVersion | undefined {
  return [...versions].find((version) => headers[version.headers.payment] !== undefined);
}

/**
 * Reads the payment of a request from the header of a version, or of several if they agree.
 * @returns undefined if there is no payment
 * @throws GatewayError `invalid_payment`
 */
export function readPayment(request: JobRequest, methods: Methods): SignedPayment | undefined {
  const payments = [...methods.versions].flatMap((version) => readHeader(request, version, methods) ?? []);
  const [payment, ...others] = payments;
  if (payment !== undefined && !others.every((other) => agree(payment, other))) {
    const names = payments.map(({ version }) => headerName(version)).join(" and ");
    throw invalid(`${names} hold different payments: send one of them.`);
  }
  return payment;
}

function readHeader(request: JobRequest, version: WireVersion, methods: Methods): SignedPayment | undefined {
  const payload = readPayload(request, version);
  return payload && toSignedPayment(payload, headerName(version), methods);
}

/**
 * Reads the payload in a version's header, whatever the payload pays for.
 * @returns undefined if the request has no header of this version
 * @throws GatewayError `invalid_payment`
 */
export function readPayload(request: JobRequest, version: WireVersion): Payload | undefined {
  const values = request.headerValues(version.headers.payment);
  const value = values[0];
  if (value === undefined) return undefined;
  const name = headerName(version);
  if (values.length > 1) throw invalid(`${name} was sent ${values.length} times: send it once.`);

  let decoded: unknown;
  try {
    decoded = decodeHeader(value);
  } catch (cause) {
    throw invalid(`${name} is not JSON in base64.`, cause);
  }
  if (isNestedDeeper(decoded, MAX_NESTING))
    throw invalid(`${name} is nested more than ${MAX_NESTING} levels deep.`);
  const payload = toPayload(decoded, name);
  if (payload.x402Version !== version.number) {
    throw invalid(
      `${name} carries x402 version ${version.number}, but its payload says ${payload.x402Version}.`,
    );
  }
  return payload;
}

const text = z.string().min(1);
/** An object that the schema of `@x402/core` would copy as it is. */
const anyObject = z.custom<Readonly<Record<string, unknown>>>(
  (value) => isObject(value) && !Object.hasOwn(value, "__proto__"),
);
const usualPayload = z.object({
  x402Version: z.literal(2),
  resource: z
    .strictObject({ url: text, description: z.string().optional(), mimeType: z.string().optional() })
    .optional(),
  accepted: z.object({
    scheme: text,
    network: z.string().min(3).includes(":"),
    amount: text,
    asset: text,
    payTo: text,
    maxTimeoutSeconds: z.number().positive(),
    extra: anyObject.optional(),
  }),
  payload: anyObject,
  extensions: anyObject.optional(),
});

/**
 * Reads a payload of any version. A compiled schema of this zod accepts the usual payloads in a tenth of the time that the
 * schema of `@x402/core` takes. For all other payloads, the schema of `@x402/core` decides.
 * @throws GatewayError `invalid_payment`
 */
function toPayload(decoded: unknown, name: string): Payload {
  const usual = usualPayload.safeParse(decoded);
  if (usual.success) return usual.data;
  const parsed = parsePaymentPayload(decoded);
  if (!parsed.success) throw invalid(`${name} is not an x402 payment payload. ${firstIssue(parsed.error)}`);
  return parsed.data;
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Parses a header of x402, which is JSON in base64. @throws Error for any other text */
export function decodeHeader(value: string): unknown {
  if (!BASE64.test(value)) throw new Error("expected base64");
  return JSON.parse(Buffer.from(value, "base64").toString());
}

/** Returns the value of a header of x402. The function of `@x402/core` takes twenty times as long. */
export function encodeHeader(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

function headerName({ headers }: WireVersion): string {
  return headers.payment.toUpperCase();
}

/** @param name name of the header, for the refusal @throws GatewayError `invalid_payment` */
export function toSignedPayment(payload: Payload, name: string, methods: Methods): SignedPayment {
  const version = methods.versions.find(payload.x402Version);
  if (version === undefined) {
    const { current } = methods.versions;
    throw invalid(`${name} is of x402 version ${payload.x402Version}: pay with version ${current.number}.`);
  }
  const method = methods.ofPayload(payload.payload);
  const { schema, kind } = method.payload;
  const parsed = schema.safeParse(payload.payload);
  if (!parsed.success) throw invalid(`${name}: payload is not ${kind}. ${firstIssue(parsed.error)}`);
  const purchaseName = methods.purchaseNames?.read(payload);
  const { scheme, network, accepted } = version.read(payload);
  const { from, to, value, validAfter, validBefore, nonce, facilitatorAddress, fingerprint, details } =
    parsed.data;
  // The object is built without a spread, so that the steps of a purchase copy it in a tenth of the time.
  return {
    version,
    method,
    scheme,
    network,
    from,
    to,
    value,
    validAfter,
    validBefore,
    nonce,
    facilitatorAddress,
    fingerprint,
    payload,
    ...(details && { details }),
    ...(accepted && { accepted }),
    ...(purchaseName !== undefined && { purchaseName }),
  };
}

/** Returns true if payments in two versions are the same. */
function agree(one: SignedPayment, other: SignedPayment): boolean {
  const [network, another] = [one, other].map(({ version, network }) => version.networkOf(network));
  return one.fingerprint === other.fingerprint && one.scheme === other.scheme && network === another;
}

/** Describes the first issue of an error of this zod, or of the zod of @x402/core. */
function firstIssue(error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] }): string {
  const issue = error.issues[0];
  if (issue === undefined) return "";
  // The text is escaped, because the path and some messages repeat names from the payload.
  return printable(`At ${issue.path.map(String).join(".") || "its top"}: ${issue.message}.`);
}

function invalid(message: string, cause?: unknown): GatewayError {
  return new GatewayError("invalid_payment", message, cause === undefined ? {} : { cause });
}
