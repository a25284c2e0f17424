import { GatewayError } from "../../core/errors.ts";
import type { PurchaseNames } from "../../x402/wire/purchase-names.ts";
import type { Payload } from "../../x402/wire/version.ts";

/** Name of the extension. */
export const EXTENSION = "payment-identifier";
const MIN_LENGTH = 16;
const MAX_LENGTH = 128;
const CHARACTERS = "^[a-zA-Z0-9_-]+$";

/** JSON Schema of the extension's `info`, as the official library declares it. */
export const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    required: { type: "boolean" },
    id: { type: "string", minLength: MIN_LENGTH, maxLength: MAX_LENGTH, pattern: CHARACTERS },
  },
  required: ["required"],
};

/** Payment identifiers as names of purchases. */
export const IDENTIFIERS: PurchaseNames = {
  read: readIdentifier,
  taken: (what) =>
    new GatewayError(
      "payment_identifier_conflict",
      `The payer used this payment identifier for another ${what}: take a new one. This request charged nothing.`,
    ),
};

/**
 * Reads the identifier that the client keeps for all payments of one purchase.
 * @returns undefined when there is none: clients that do not know the extension send its declaration back as it is
 * @throws GatewayError `invalid_payment`: a client that sent an identifier relies on it
 */
function readIdentifier({ extensions }: Payload): string | undefined {
  const extension = extensions?.[EXTENSION];
  if (extension === undefined) return undefined;
  const info = isRecord(extension) ? extension.info : undefined;
  if (!isRecord(info)) throw invalid("has no info, or one that is no object");
  const { id } = info;
  if (id === undefined) return undefined;
  if (typeof id !== "string") throw invalid("has an id that is no string");
  if (id.length < MIN_LENGTH || id.length > MAX_LENGTH || !new RegExp(CHARACTERS).test(id)) {
    throw invalid(`has an id that is not ${MIN_LENGTH} to ${MAX_LENGTH} of A-Z, a-z, 0-9, "_" and "-"`);
  }
  return id;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function invalid(what: string): GatewayError {
  return new GatewayError(
    "invalid_payment",
    `PAYMENT-SIGNATURE: the extension ${EXTENSION} ${what}. Nothing was charged.`,
  );
}
