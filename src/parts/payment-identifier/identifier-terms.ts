import type { Job } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import type { X402Part } from "../../x402/part.ts";
import type { Requirement, Terms, TermsCheck } from "../../x402/purchase/terms.ts";
import type { JobDescription } from "../../x402/wire/offer.ts";
import { requiresIdentifier } from "./config.ts";
import { EXTENSION, SCHEMA } from "./identifiers.ts";

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
