import type { JobPolicy, JobRestriction } from "../../config/config.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type {
  CheckedRequest,
  Contribution,
  JobAccess,
  Terms,
  TermsCheck,
} from "../../x402/purchase/terms.ts";
import type { CallerAuth } from "./caller-auth.ts";
import { callerHeadersOf, evmPayerOf } from "./headers.ts";

const NOTE = "For permitted callers only.";
const ACCESS: Readonly<Record<JobRestriction["authMode"], Omit<JobAccess, "mode">>> = {
  payer_is_caller: { note: NOTE },
  delegated_caller_signature: {
    note: NOTE,
    notByPage:
      "This job needs a permitted caller's signature, which this page cannot make. Buy it from a program.",
  },
};

/** Sells restricted jobs only to permitted callers. */
export class CallerTerms implements Terms {
  readonly checks: readonly TermsCheck[];
  readonly #auth: CallerAuth;
  readonly #restrictions: ReadonlyMap<string, JobRestriction>;

  constructor(auth: CallerAuth, policies: readonly JobPolicy[]) {
    this.#auth = auth;
    this.#restrictions = new Map(
      policies.flatMap(({ serviceId, jobIndex, restriction }) =>
        restriction === undefined ? [] : [[jobKeyText(serviceId, jobIndex), restriction]],
      ),
    );
    this.checks = [
      {
        name: "caller",
        jobs: this.#restrictions,
        before: "room",
        refusals: [
          "missing_caller",
          "invalid_caller",
          "missing_signature",
          "invalid_signature",
          "missing_signature_nonce",
          "invalid_signature_nonce",
          "missing_signature_expiry",
          "invalid_signature_expiry",
          "signature_mismatch",
          "signature_expired",
          "signature_replay",
          "caller_not_permitted",
          "permission_check_failed",
        ],
        run: (request) => this.#authorize(request),
      },
    ];
  }

  accessTo(job: JobKey): JobAccess | undefined {
    const restriction = this.#restrictionOf(job);
    if (restriction === undefined) return undefined;
    const { authMode: mode } = restriction;
    const isSigned = mode === "delegated_caller_signature";
    return { mode, ...ACCESS[mode], ...(isSigned && { headers: callerHeadersOf(job) }) };
  }

  async #authorize({ job, payment, ...asked }: CheckedRequest): Promise<Contribution | undefined> {
    const restriction = this.#restrictionOf(job);
    if (restriction === undefined) return undefined;
    const { caller, nonce } = await this.#auth.authorize(job, restriction, {
      ...asked,
      payer: evmPayerOf(payment),
    });
    return { metadata: { "X-CHAIN-CALLER": caller }, nonce };
  }

  #restrictionOf({ serviceId, jobIndex }: JobKey): JobRestriction | undefined {
    return this.#restrictions.get(jobKeyText(serviceId, jobIndex));
  }
}
