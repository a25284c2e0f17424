import { isEvm } from "../../chain/chain-client.ts";
import type { X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { Feature } from "../../x402/jobs/seller.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { Services } from "../../x402/services.ts";
import { JobUrls } from "../../x402/wire/paths.ts";
import { Challenges } from "./challenges.ts";
import { CombinedProtocol } from "./combined-protocol.ts";
import { mppTable } from "./config.ts";
import { BLUEPRINT, EVM, type MppMethod } from "./methods.ts";
import { MppMessages } from "./mpp-messages.ts";
import { MPP_COUNTERS, type MppCounter, MppProtocol } from "./mpp-protocol.ts";

/** Prefix of the routes for clients of the Blueprint SDK. */
const ROUTES = "mpp";

/** MPP at each configuration. Its challenges outlive a reload. */
export class Mpp implements X402Part {
  readonly #clock: Clock;
  readonly #transferMethods: Methods;
  readonly #count: (counter: MppCounter) => void;
  #challenges: Challenges | undefined;

  constructor({ clock, stats, methods }: Services) {
    this.#transferMethods = methods;
    this.#clock = clock;
    this.#count = stats.addCounters(MPP_COUNTERS);
  }

  open(x402: X402Config): ShopAddition | undefined {
    const { acceptedTokens: tokens } = x402;
    const config = mppTable.in(x402);
    if (config === undefined) return undefined;
    const before = this.#challenges;
    const challenges = before ?? new Challenges({ config, clock: this.#clock });
    const protocolBy = (method: MppMethod) =>
      new MppProtocol({
        method,
        transferMethods: this.#transferMethods,
        challenges,
        tokens,
        count: this.#count,
      });
    const mpp = protocolBy(EVM);
    return {
      apply: () => {
        this.#challenges = challenges;
        before?.reload(config);
      },
      protocol: (other) => new CombinedProtocol({ x402: other, mpp }),
      protocols: { [ROUTES]: protocolBy(BLUEPRINT) },
      messageProtocol: new MppMessages(mpp),
      ...(tokens.some(({ network }) => isEvm(network)) && { feature: featureOf(new JobUrls(x402)) }),
      pageHeaders: { sent: ["Accept-Payment", "Idempotency-Key"], read: ["Payment-Receipt"] },
    };
  }
}

function featureOf(urls: JobUrls): Feature {
  return {
    protocol: "MPP",
    guide:
      "MPP clients (`mppx`) pay one of the challenges in `WWW-Authenticate: Payment`, which the 402 has too.",
    entryFields: (job): Record<string, string> =>
      job.schemes.includes("exact") ? { mpp_endpoint: urls.of(job, ROUTES) } : {},
    methodFor: (offer) => (EVM.takes(offer) ? EVM.name : undefined),
    headers: {
      accepted: { "Payment-Receipt": "Receipt of MPP, JSON in base64url" },
      paymentRequired: { "WWW-Authenticate": "Challenges of MPP for this body" },
    },
  };
}
