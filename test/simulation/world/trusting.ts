import { Client } from "./client.ts";
import { UNCHECKED_ASSET } from "./laws.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import type { Simulation } from "./simulation.ts";

const NUMBERS = [4, 12] as const;
/** First of the numbers that these clients have. */
const FIRST = 1_500;
const LONGEST_SECS = 200;
/** Time within which the gateway asks again, and the facilitator's transaction is mined. */
const ASKED_AGAIN_MS = 75_000;

/** A token whose chain cannot be asked: the word of a facilitator is all that there is. */
export class TrustingClients implements Part {
  readonly #count: number;

  constructor(simulation: Simulation) {
    this.#count = simulation.pick("trusting clients", NUMBERS);
  }

  configure(shop: Shop): Shop {
    const { acceptedTokens, ...x402 } = shop.x402;
    const [first] = acceptedTokens;
    if (first === undefined) throw new Error("no token is taken");
    const { rpcUrl: _, ...token } = first;
    const unchecked = { ...token, asset: UNCHECKED_ASSET, requireOnchainConfirmation: false };
    return { ...shop, x402: { ...x402, acceptedTokens: [...acceptedTokens, unchecked] } };
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    surroundings.laws.atEnd(() => checkEnd(surroundings));
    return Array.from({ length: this.#count }, (_, i) => {
      const name = `trusting ${i}`;
      return new Client(surroundings, {
        ...{ name, number: FIRST + i, path: "/x402/jobs/1/0", body: `${name}: work` },
        longestSecs: LONGEST_SECS,
        takes: ({ asset }) => asset.toLowerCase() === UNCHECKED_ASSET,
      });
    });
  }
}

function checkEnd({ simulation, laws }: Surroundings): void {
  for (const payment of laws.payments) {
    const { asset, client, nonce, ends } = payment;
    if (asset !== UNCHECKED_ASSET) continue;
    const { askedAtMs, saidYes, asked } = laws.wordOn(nonce);
    const state = laws.stateOf(payment);
    if (state === "settled" && !saidYes)
      simulation.break(`a payment of ${client} is settled, and no facilitator said so`);
    if (state === "failed") simulation.break(`a payment of ${client} failed, which nobody can know`);
    if (asked.size > 1) simulation.break(`two facilitators were asked to settle a payment of ${client}`);
    const healedAt = simulation.healedAtMs;
    const wasIdle = ends * 1000 > healedAt + ASKED_AGAIN_MS && askedAtMs < healedAt;
    // A gateway whose clock was ahead has given it up.
    if (state === "unresolved" && wasIdle && laws.areClocksRight && !laws.hasMoved(payment))
      simulation.break(`nobody asked again to settle a payment of ${client}`);
  }
}
