import type { PaymentRequired } from "@x402/core/types";
import type { Job } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { Terms, TermsCheck } from "../purchase/terms.ts";
import type { Payload } from "./version.ts";

const EXTENSION = "payment-identifier";
const MIN_LENGTH = 16;
const MAX_LENGTH = 128;
const CHARACTERS = "^[a-zA-Z0-9_-]+$";

/** JSON Schema of the extension's `info`, as the official library declares it. */
const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    required: { type: "boolean" },
    id: { type: "string", minLength: MIN_LENGTH, maxLength: MAX_LENGTH, pattern: CHARACTERS },
  },
  required: ["required"],
};

/**
 * Reads the identifier that the client keeps for all payments of one purchase.
 * @returns undefined when there is none: clients that do not know the extension send its declaration back as it is
 * @throws GatewayError `invalid_payment`: a client that sent an identifier relies on it
 */
export function readPaymentIdentifier({ extensions }: Payload): string | undefined {
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

/** Jobs that are sold only to clients that send a payment identifier. */
export class IdentifierRule implements Terms {
  readonly checks: readonly TermsCheck[] = [
    {
      name: "identifier",
      before: "offer",
      refusals: ["missing_payment_identifier"],
      run: ({ payment, job }) => this.check(payment, job),
    },
  ];
  readonly #jobs: ReadonlySet<string>;

  constructor(jobs: readonly Job[]) {
    this.#jobs = new Set(
      jobs.flatMap(({ serviceId, jobIndex, requirePaymentIdentifier }) =>
        requirePaymentIdentifier ? jobKeyText(serviceId, jobIndex) : [],
      ),
    );
  }

  /** Returns the extension as a 402 for the job declares it. */
  declaration(job: JobKey): NonNullable<PaymentRequired["extensions"]> {
    return { [EXTENSION]: { info: { required: this.#isRequired(job) }, schema: SCHEMA } };
  }

  /** @throws GatewayError `missing_payment_identifier` */
  check({ version, paymentId }: Pick<SignedPayment, "version" | "paymentId">, job: JobKey): undefined {
    if (paymentId !== undefined || !this.#isRequired(job)) return;
    const cure = version.hasExtensions
      ? `send extensions["${EXTENSION}"].info.id, and the same one when you try again`
      : `x402 version ${version.number} has no field for it, so pay with version 2`;
    throw new GatewayError(
      "missing_payment_identifier",
      `This job is sold only with a payment identifier: ${cure}. Nothing was charged.`,
    );
  }

  #isRequired({ serviceId, jobIndex }: JobKey): boolean {
    return this.#jobs.size > 0 && this.#jobs.has(jobKeyText(serviceId, jobIndex));
  }
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
