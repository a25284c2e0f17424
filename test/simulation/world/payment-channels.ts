import { toRemoteFacilitator } from "../../../src/config/facilitators.ts";
import { type ChannelsConfig, channelsTable } from "../../../src/parts/channels/config.ts";
import { refundsTable } from "../../../src/parts/refunds/config.ts";
import type { Chain } from "./chain.ts";
import { CHANNEL_JOBS, ChannelBuyer } from "./channel-buyer.ts";
import { channelFacilitator, type SentPayload } from "./channel-facilitator.ts";
import { ChannelLaws } from "./channel-laws.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import { refundsFrom } from "./settling.ts";
import type { Simulation } from "./simulation.ts";

const NUMBERS = [1, 3, 6] as const;
/** First of the numbers that these clients have. */
const FIRST = 2_300;
const HOST = "channel-facilitator";
/** Withdrawals end when everything works for a minute at least. */
const WITHDRAW_DELAY_SECS = 120;

/** Payment channels: payers who deposit, sign vouchers, ask for refunds and withdraw, and a facilitator that lies. */
export class PaymentChannels implements Part {
  readonly #simulation: Simulation;
  readonly #chain: Chain;
  readonly #count: number;
  readonly servers: NonNullable<Part["servers"]>;
  #onAsked: (payload: SentPayload) => void = () => undefined;
  #laws: ChannelLaws | undefined;

  constructor(simulation: Simulation, chain: Chain) {
    this.#simulation = simulation;
    this.#chain = chain;
    this.#count = simulation.pick("payers of channels", NUMBERS);
    const server = channelFacilitator(simulation, chain, {
      ...{ name: "the facilitator of channels", network: "eip155:84532" },
      onAsked: (payload) => this.#onAsked(payload),
    });
    this.servers = [{ host: HOST, server, lossRate: 0.01 }];
  }

  configure({ x402, refunds = refundsFrom(this.#simulation, this.#chain.accounts), ...shop }: Shop): Shop {
    const config: ChannelsConfig = {
      authorizers: [{ privateKey: `0x${"17".repeat(32)}` }],
      ...{ withdrawDelaySecs: WITHDRAW_DELAY_SECS, minDeposit: 2, minClaim: undefined },
      claimAt: { unit: "usd", amount: 10n * 10n ** 18n },
      claimEverySecs: this.#simulation.pick("claims are made every", [2, 5, 15]),
    };
    const tokens = channelsTable.tokensBeside(config, x402.acceptedTokens);
    const { returned, kept, asked, used } = CHANNEL_JOBS;
    const jobs = [
      { serviceId: 1n, jobIndex: returned, onFailure: "refund" },
      { serviceId: 1n, jobIndex: kept },
      { serviceId: 1n, jobIndex: asked, onFailure: "ask" },
      { serviceId: 1n, jobIndex: used, onFailure: "refund", charge: ["used"], maxRunSecs: 20 },
    ] as const;
    const prices = jobs.map(({ jobIndex }) => [`1/${jobIndex}`, 1_000_000_000_000_000n] as const);
    return {
      ...{ ...shop, refunds, channels: config },
      x402: {
        ...x402,
        facilitators: [...x402.facilitators, toRemoteFacilitator(`http://${HOST}`)],
        acceptedTokens: [...x402.acceptedTokens, ...tokens],
        jobs: [...(x402.jobs ?? []), ...jobs],
        jobPricing: new Map([...x402.jobPricing, ...prices]),
        ...{ paysBack: true, promises: refundsTable.gives?.promises ?? [] },
      },
    };
  }

  isQuiet(): boolean {
    return this.#laws?.isQuiet() ?? true;
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    const { simulation, laws, shop } = surroundings;
    const chain = this.#chain;
    const buyers = Array.from(
      { length: this.#count },
      (_, i) => new ChannelBuyer({ ...surroundings, chain, number: FIRST + i }),
    );
    const { confirmations } = shop.x402.acceptedTokens[0] ?? { confirmations: 1 };
    const own = new ChannelLaws({
      simulation,
      laws,
      chain,
      confirmations,
      buyers,
      arePushed: shop.pushes === true,
    });
    this.#laws = own;
    this.#onAsked = (payload) => own.asked(payload);
    return buyers;
  }
}
