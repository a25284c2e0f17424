import type { JobPolicy } from "../../config/config.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { CheckedRequest, Contribution, Terms, TermsCheck } from "../purchase/terms.ts";
import type { CallerAuth } from "./caller-auth.ts";

/** Sells restricted jobs to permitted callers alone. */
export class CallerTerms implements Terms {
  readonly checks: readonly TermsCheck[] = [
    {
      name: "caller",
      before: "room",
      refusals: [
        ...(["missing_caller", "invalid_caller", "missing_signature", "invalid_signature"] as const),
        ...(["missing_signature_nonce", "invalid_signature_nonce"] as const),
        ...(["missing_signature_expiry", "invalid_signature_expiry"] as const),
        ...(["signature_mismatch", "signature_expired", "signature_replay"] as const),
        ...(["caller_not_permitted", "permission_check_failed"] as const),
      ],
      run: (request) => this.#authorize(request),
    },
  ];
  readonly #auth: CallerAuth;
  readonly #policies: ReadonlyMap<string, JobPolicy>;

  constructor(auth: CallerAuth, policies: readonly JobPolicy[]) {
    this.#auth = auth;
    this.#policies = new Map(
      policies.map((policy) => [jobKeyText(policy.serviceId, policy.jobIndex), policy]),
    );
  }

  async #authorize({ job, payment, ...asked }: CheckedRequest): Promise<Contribution | undefined> {
    const restriction = this.#policies.get(jobKeyText(job.serviceId, job.jobIndex))?.restriction;
    if (restriction === undefined) return undefined;
    const { caller, nonce } = await this.#auth.authorize(job, restriction, { ...asked, payer: payment.from });
    return { metadata: { "X-CHAIN-CALLER": caller }, nonce };
  }
}
