import type { X402Config } from "../../config/config.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { Services } from "../../x402/services.ts";
import { CallerAuth } from "./caller-auth.ts";
import { CallerChain } from "./caller-chain.ts";
import { CallerTerms } from "./caller-terms.ts";
import { DryRunRoute } from "./dry-run-route.ts";
import { CALLER_HEADERS } from "./headers.ts";
import { TARGET } from "./target.ts";

/** The restricted jobs under the current configuration. Cached permissions and connections to the chains outlive a reload. */
export class RestrictedJobs implements X402Part {
  readonly #services: Services;
  readonly #auth: CallerAuth;

  constructor(services: Services) {
    const { store, clock, elapsed, telemetry, periods } = services;
    const chain = new CallerChain({ timeoutMs: periods.rpcTimeoutMs, clock: elapsed, telemetry });
    this.#services = services;
    this.#auth = new CallerAuth({ chain, journal: store, clock });
  }

  open({ jobPolicies }: X402Config): ShopAddition {
    const services = this.#services;
    const callerAuth = this.#auth;
    const isRestricted = jobPolicies.some(({ restriction }) => restriction !== undefined);
    return {
      ...(isRestricted && { terms: new CallerTerms(callerAuth, jobPolicies) }),
      pageHeaders: { sent: [TARGET.toUpperCase(), ...CALLER_HEADERS], read: [] },
      belowJobs(shop, protocol) {
        const dryRun = new DryRunRoute({ ...services, ...shop, protocol, callerAuth });
        return [["/auth-dry-run", (job) => ({ POST: (request) => dryRun.answer(request, job) })]];
      },
    };
  }
}
