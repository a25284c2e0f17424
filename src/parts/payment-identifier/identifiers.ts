import type { Job } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import type { X402Part } from "../../x402/part.ts";
import type { Requirement, Terms, TermsCheck } from "../../x402/purchase/terms.ts";
import type { JobDescription } from "../../x402/wire/offer.ts";
import type { Payload, PurchaseNames } from "../../x402/wire/version.ts";

import { requiresIdentifier } from "./config.ts";

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
      `The payer used this payment identifier for another ${what}: use a new identifier. This request charged nothing.`,
    ),
};

/**
 * Reads the identifier that the client keeps for all payments of one purchase.
 * @returns undefined when there is no identifier, because clients that do not know the extension send its declaration
 * back as it is
 * @throws GatewayError `invalid_payment` for a malformed identifier, because a client that sent an identifier relies on
 * it
 */
function readIdentifier({ extensions }: Payload): string | undefined {
  const extension = extensions?.[EXTENSION];
  if (extension === undefined) return undefined;
  const info = isRecord(extension) ? extension.info : undefined;
  if (!isRecord(info)) throw invalid("has no info, or an info that is not an object");
  const { id } = info;
  if (id === undefined) return undefined;
  if (typeof id !== "string") throw invalid("has an id that is not a string");
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

/** Declares the extension in the 402 of each job, and requires an identifier where the configuration says so. */
export const IDENTIFIED_SALES: X402Part = {
  open({ jobs = [] }) {
    const terms = new IdentifierTerms(jobs);
    return { terms, declares: (job) => terms.declaration(job) };
  },
};

/** Jobs that are sold only to clients that send a payment identifier. */
export class IdentifierTerms implements Terms {
  readonly checks: readonly TermsCheck[];
  readonly #jobs: ReadonlySet<string>;

  constructor(jobs: readonly Job[]) {
    this.#jobs = new Set(
      jobs.filter(requiresIdentifier).map(({ serviceId, jobIndex }) => jobKeyText(serviceId, jobIndex)),
    );
    this.checks = [
      {
        name: "identifier",
        jobs: this.#jobs,
        before: "offer",
        refusals: ["missing_payment_identifier"],
        run: ({ payment }) => requireIdentifier(payment),
      },
    ];
  }

  requires(job: JobKey): Requirement | undefined {
    return this.#isRequired(job)
      ? { name: EXTENSION, note: "Payments must have a payment identifier." }
      : undefined;
  }

  /** Returns the extension as a 402 for the job declares it. */
  declaration(job: JobKey): JobDescription["extensions"] {
    return { [EXTENSION]: { info: { required: this.#isRequired(job) }, schema: SCHEMA } };
  }

  #isRequired({ serviceId, jobIndex }: JobKey): boolean {
    return this.#jobs.has(jobKeyText(serviceId, jobIndex));
  }
}

/** @throws GatewayError `missing_payment_identifier` */
export function requireIdentifier({
  version,
  purchaseName,
}: Pick<SignedPayment, "version" | "purchaseName">): undefined {
  if (purchaseName !== undefined) return;
  const cure = version.hasExtensions
    ? `send extensions["${EXTENSION}"].info.id, and the same one when you try again`
    : `x402 version ${version.number} has no field for it, so pay with version 2`;
  throw new GatewayError(
    "missing_payment_identifier",
    `This job is sold only with a payment identifier: ${cure}. Nothing was charged.`,
  );
}
