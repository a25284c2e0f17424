import type { X402Config } from "../../../src/config/config.ts";
import type { HttpResponse } from "../../../src/http/response.ts";
import { mppTable } from "../../../src/parts/mpp/config.ts";
import { Client, isChecked, MAX_SENDS, type Order } from "./client.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import type { Peer } from "./peers.ts";
import { PriceLaws } from "./price-laws.ts";
import { PRICED_JOBS, PRICER, type PricedJob } from "./priced-jobs.ts";
import { SimulatedPricer } from "./pricer.ts";
import { type Demand, MPP, type Protocol, X402, X402_V1 } from "./protocols.ts";
import { Requests } from "./requests.ts";
import { type Simulation, TROUBLE_MS } from "./simulation.ts";

const NUMBERS = [8, 24] as const;
/** First of the numbers that these clients have. */
const FIRST = 2_600;
const MEAN_RELOAD_MS = 12_000;
/** Longest time between the reloads of two gateways. */
const SPREAD_MS = 4_000;

/** Uses that a client makes of its offer. */
const WAYS = [
  "pays",
  "pays",
  "pays",
  "is late",
  "asks for less",
  "asks for less and takes off the seal",
  "asks at another job",
  "asks for the lowest price",
  "changes the amount",
  "changes the sealed amount",
] as const;
type Way = (typeof WAYS)[number];

/** Jobs whose price depends on the request: by rules that reloads replace, and by a program that changes its mind. */
export class PricedRequests implements Part {
  readonly #count: number;
  readonly #ttlSecs: number;
  #pricer: SimulatedPricer | undefined;

  constructor(simulation: Simulation) {
    this.#count = simulation.pick("clients with prices of their own", NUMBERS);
    this.#ttlSecs = simulation.pick("offers last", [30, 120]);
  }

  configure(shop: Shop): Shop {
    const { x402 } = shop;
    const jobs = PRICED_JOBS.map(({ jobIndex, route, variants }) => ({
      ...{ serviceId: 1n, jobIndex, price: variants?.[0].price ?? PRICER },
      ...(route && { route }),
    }));
    const acceptedTokens = x402.acceptedTokens.map((token) => ({ ...token, currency: "USD" as const }));
    const quoteTtlSecs = this.#ttlSecs;
    return {
      ...shop,
      x402: { ...x402, acceptedTokens, quoteTtlSecs, jobs: [...(x402.jobs ?? []), ...jobs] },
    };
  }

  peers({ simulation }: Surroundings): readonly Peer[] {
    this.#pricer = new SimulatedPricer(simulation);
    return [this.#pricer];
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    if (this.#pricer === undefined) throw new Error("there is no pricer");
    const laws = new PriceLaws(surroundings, this.#pricer);
    reloads(surroundings);
    return Array.from({ length: this.#count }, (_, i) => this.#customer(surroundings, laws, i));
  }

  #customer(surroundings: Surroundings, laws: PriceLaws, i: number): Customer {
    const { simulation } = surroundings;
    const job = PRICED_JOBS[i % PRICED_JOBS.length] as PricedJob;
    const name = `asker ${i}`;
    const other = PRICED_JOBS[0] as PricedJob;
    const drawn = simulation.pick(`${name} does`, WAYS);
    const hasOther = job !== other && job.route === undefined;
    const way = drawn === "asks at another job" && !hasOther ? "pays" : drawn;
    const { little, much } = job.requestsOf(name);
    const asked = way === "pays" ? simulation.pick(`${name} wants`, [little, much]) : much;
    const protocol = protocolOf(surroundings, name, way);
    laws.watch(name, {
      ...{ job, request: asked, sendsSeals: protocol !== X402_V1 && !UNSEALED.has(way) },
      cheats: way !== "pays" && way !== "is late",
      isLate: way === "is late",
    });
    const asksFor =
      way === "asks at another job" ? { path: other.path } : way.startsWith("asks") ? little : undefined;
    const waitsMs =
      way === "is late"
        ? (this.#ttlSecs + 1) * 1_000
        : simulation.delay(`${name} thinks`, 0, this.#ttlSecs * 900);
    const order: Order = {
      ...{ name, number: FIRST + i, protocol, waitsMs, longestSecs: 4 * this.#ttlSecs },
      ...{ path: asked.path, body: asked.body, headers: () => asked.headers, otherBodies: 0.2 },
      ...(asked.query && { query: asked.query }),
      ...(asksFor && { asksFor }),
      takes: (offer) =>
        isChecked(offer) && (protocol !== X402_V1 || offer.extra.assetTransferMethod !== "permit2"),
      onDemands: (request, demands) => {
        const at = PRICED_JOBS.find(({ path }) => path === request.path);
        if (at !== undefined) laws.offered(at, request, demands);
      },
      onSigned: (paid) => laws.signed(paid),
      ...(way === "pays" && { onTold: (paid, told) => laws.heard(paid, told) }),
      ...(UNSEALED.has(way) && { changes: withoutSeal }),
      ...(way === "changes the amount" && { changes: withLess }),
      ...(way === "changes the sealed amount" && { changes: withLessSealed }),
    };
    return way === "asks for the lowest price"
      ? new Shopper(surroundings, order, job)
      : new Client(surroundings, order);
  }
}

/** Ways in which offers lose their seals. */
const UNSEALED: ReadonlySet<Way> = new Set([
  "asks for less and takes off the seal",
  "asks for the lowest price",
]);

function protocolOf({ simulation, shop }: Surroundings, name: string, way: Way): Protocol {
  if (way.startsWith("changes") || UNSEALED.has(way)) return X402;
  const isSoldByMpp = mppTable.in(shop.x402) !== undefined;
  return simulation.pick(`${name} buys over`, isSoldByMpp ? [X402, X402_V1, MPP] : [X402, X402, X402_V1]);
}

function withoutSeal(demand: Demand): Demand {
  const { sealedOffer: _, ...extra } = demand.accepted.extra;
  return { ...demand, accepted: { ...demand.accepted, extra } };
}

/** Returns a demand for less than was demanded, if it has a seal. */
function withLess(demand: Demand): Demand {
  if (demand.accepted.extra.sealedOffer === undefined) return demand;
  const amount = String(BigInt(demand.accepted.amount) / 2n);
  return { ...demand, accepted: { ...demand.accepted, amount } };
}

/** Returns a demand for less than was demanded, which the sealed offer says as well. */
function withLessSealed(demand: Demand): Demand {
  const { sealedOffer } = demand.accepted.extra;
  if (sealedOffer === undefined) return demand;
  const [text = "", seal = ""] = String(sealedOffer).split(".");
  const { amount } = withLess(demand).accepted;
  const changed = Buffer.from(text, "base64url")
    .toString()
    .replace(`"amount":"${demand.accepted.amount}"`, `"amount":"${amount}"`);
  const extra = {
    ...demand.accepted.extra,
    sealedOffer: `${Buffer.from(changed).toString("base64url")}.${seal}`,
  };
  return { ...demand, accepted: { ...demand.accepted, amount, extra } };
}

/** Replaces prices in the configuration of all gateways, one after the other. */
function reloads(surroundings: Surroundings): void {
  const { simulation, replicas } = surroundings;
  simulation.at(simulation.random("time to a reload") * 2 * MEAN_RELOAD_MS, simulation.world, () => {
    if (simulation.now >= TROUBLE_MS) return;
    const job = simulation.pick("a reload changes", PRICED_JOBS);
    const variant = job.variants && simulation.pick("a reload gives it", job.variants);
    if (variant !== undefined && simulation.fault("prices are changed", 1)) {
      simulation.say(`the price of job ${job.jobIndex} becomes ${job.variants?.indexOf(variant)}`);
      const change = (x402: X402Config) => ({
        ...x402,
        jobs: (x402.jobs ?? []).map((one) =>
          one.jobIndex === job.jobIndex ? { ...one, price: variant.price } : one,
        ),
      });
      for (const replica of replicas)
        simulation.at(simulation.random("a gateway reloads") * SPREAD_MS, simulation.world, () =>
          replica.configure(change),
        );
    }
    reloads(surroundings);
  });
}

/** A client that looks at a job's price, and pays the lowest one for what costs more. */
class Shopper implements Customer {
  readonly name: string;
  readonly #surroundings: Surroundings;
  readonly #order: Order;
  readonly #jobIndex: number;
  readonly #requests: Requests;
  #client: Client | undefined;
  #hasGivenUp = false;

  constructor(surroundings: Surroundings, order: Order, { jobIndex }: PricedJob) {
    this.name = order.name;
    this.#jobIndex = jobIndex;
    this.#surroundings = surroundings;
    this.#order = order;
    this.#requests = new Requests({ ...surroundings, name: this.name });
  }

  get isDone(): boolean {
    return this.#hasGivenUp || this.#client?.isDone === true;
  }

  start(): void {
    this.#look(MAX_SENDS);
  }

  #look(left: number): void {
    const path = `/x402/jobs/1/${this.#jobIndex}/price`;
    this.#requests.send({ method: "GET", path, headers: {}, body: "" }, "for the price", (answer) => {
      const amount = lowestIn(answer);
      if (amount !== undefined) this.#buy(amount);
      else if (left > 0) this.#requests.later(1_000, () => this.#look(left - 1));
      else this.#hasGivenUp = true;
    });
  }

  #buy(amount: string): void {
    const changes = (demand: Demand) => {
      const unsealed = withoutSeal(demand);
      return { ...unsealed, accepted: { ...unsealed.accepted, amount } };
    };
    this.#client = new Client(this.#surroundings, { ...this.#order, changes });
    this.#client.start();
  }
}

function lowestIn(answer: HttpResponse | undefined): string | undefined {
  if (answer?.status !== 200) return undefined;
  const { settlement_options: options } = JSON.parse(String(answer.body)) as {
    readonly settlement_options: readonly { readonly amount: string }[];
  };
  return options[0]?.amount;
}
