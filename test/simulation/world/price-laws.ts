import type { SignedPayment } from "./laws.ts";
import type { Surroundings } from "./part.ts";
import type { PricedJob } from "./priced-jobs.ts";
import type { SimulatedPricer } from "./pricer.ts";
import type { Demand, Payment, Purchase, Told } from "./protocols.ts";

/** Refusals that a payment of an open offer for its own request must not get. */
const NOT_WHILE_OPEN: ReadonlySet<unknown> = new Set([
  "payment_mismatch",
  "price_unavailable",
  "price_refused",
  "invalid_input",
]);
/** Time that a payment must have left, with some more. */
const LEFT_MS = 7_000;

/** A client's order for a job whose price depends on the request. */
export interface PricedOrder {
  readonly job: PricedJob;
  readonly request: Purchase;
  /** Its payments send back the seals of their offers. */
  readonly sendsSeals: boolean;
  /** Its payments must not be taken: they answer the offer for another request, a changed one, or one that has ended. */
  readonly cheats: boolean;
  /** Its payments come after the end of their offers. */
  readonly isLate: boolean;
}

/** Laws of prices by what is asked. */
export class PriceLaws {
  readonly #surroundings: Surroundings;
  readonly #pricer: SimulatedPricer;
  readonly #orders = new Map<string, PricedOrder>();
  /** Nonces of the payments that send back a seal. */
  readonly #sealed = new Set<string>();
  /** The price of a body at a process, and the time until which it promises to keep that price. */
  readonly #kept = new Map<string, { readonly amount: bigint; readonly untilMs: number }>();

  constructor(surroundings: Surroundings, pricer: SimulatedPricer) {
    this.#surroundings = surroundings;
    this.#pricer = pricer;
    surroundings.laws.atEnd(() => this.#checkEnd());
  }

  watch(client: string, order: PricedOrder): void {
    this.#orders.set(client, order);
  }

  signed({ payment, demand }: Payment): void {
    if (this.#orders.get(payment.client)?.sendsSeals && sealIn(demand) !== undefined)
      this.#sealed.add(payment.nonce);
  }

  /** The gateway whose code runs now has written its offers for a request. */
  offered(job: PricedJob, request: Purchase, demands: readonly Demand[]): void {
    const { simulation } = this.#surroundings;
    for (const { accepted } of demands) {
      const amount = BigInt(accepted.amount);
      if (!this.#pricesOf(job, request).includes(amount))
        simulation.break(`${JSON.stringify(request)} is offered for ${amount}, which is no price of it`);
      if (job.variants === undefined) this.#keeps(request.body, amount);
    }
  }

  /** A client that does not cheat hears of a payment for the request whose price it asked for. */
  heard({ payment, demand }: Payment, { body, status }: Told): void {
    const { simulation, laws } = this.#surroundings;
    const now = simulation.trueMs;
    if (!this.#sealed.has(payment.nonce) || !NOT_WHILE_OPEN.has(body.code)) return;
    const isWhole = BigInt(demand.accepted.amount) === payment.amount;
    const isOpen = now <= endOf(demand) - 1_000 && now + LEFT_MS <= payment.ends * 1_000;
    if (laws.areClocksRight && isWhole && isOpen)
      simulation.break(`an open offer to ${payment.client} cannot be paid: ${status} ${body.code}`);
  }

  /** Returns all prices that a request ever had, in token units. */
  #pricesOf({ variants }: PricedJob, request: Purchase): readonly bigint[] {
    if (variants === undefined) return this.#pricer.namedFor(request.body).map(({ amount }) => amount);
    return variants.flatMap((variant) => variant.amountOf(request) ?? []);
  }

  /** Checks that a process has one price for a body as long as it promises. */
  #keeps(body: string, amount: bigint): void {
    const { simulation, laws, shop } = this.#surroundings;
    const process = simulation.current;
    const key = `${process.name} ${body}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined && simulation.trueMs < kept.untilMs) {
      if (kept.amount !== amount && laws.areClocksRight)
        simulation.break(`${process.name} has the prices ${kept.amount} and ${amount} for ${body}`);
      return;
    }
    const named = this.#pricer.namedFor(body).findLast((one) => one.by === process && one.amount === amount);
    if (named === undefined) simulation.break(`nobody told ${process.name} the price ${amount}`);
    else this.#kept.set(key, { amount, untilMs: named.atMs + shop.x402.quoteTtlSecs * 1_000 });
  }

  #checkEnd(): void {
    const { laws } = this.#surroundings;
    for (const payment of laws.payments) {
      const order = this.#orders.get(payment.client);
      if (order !== undefined && laws.stateOf(payment) !== undefined) this.#checkTaken(payment, order);
    }
  }

  #checkTaken(payment: SignedPayment, { job, request, cheats, isLate }: PricedOrder): void {
    const { simulation, laws } = this.#surroundings;
    const { client, amount, bought } = payment;
    const body = laws.bodyOf(payment) ?? bought?.body ?? request.body;
    if (!this.#pricesOf(job, { ...request, body }).includes(amount))
      simulation.break(`${client} pays ${amount} for ${JSON.stringify({ ...request, body })}`);
    if (!this.#sealed.has(payment.nonce)) return;
    if (cheats) simulation.break(`${client} pays with an offer that is not for its request`);
    if (body !== request.body) simulation.break(`${client} pays for ${request.body}, and buys ${body}`);
    if (isLate && laws.areClocksRight) simulation.break(`${client} pays an offer that has ended`);
  }
}

/** Returns the Unix milliseconds at which a sealed offer ends, or else the challenge that has it. */
function endOf(demand: Demand): number {
  const [text = ""] = sealIn(demand)?.split(".") ?? [];
  const [, offer = "{}"] = Buffer.from(text, "base64url").toString().split("\n");
  const end = (JSON.parse(offer).endSecs ?? 0) * 1_000;
  return Math.min(end, Date.parse(demand.challenge?.expires ?? "") || end);
}

/** Returns the seal of an offer, which MPP has in its challenge. */
function sealIn({ accepted, challenge }: Demand): string | undefined {
  const opaque = challenge?.opaque && JSON.parse(Buffer.from(challenge.opaque, "base64url").toString());
  return (opaque ?? accepted.extra).sealedOffer;
}
