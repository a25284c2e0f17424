import type { PaymentRequirements } from "@x402/core/types";
import type { ChargeKind } from "../../../src/core/payment.ts";
import type { HttpResponse } from "../../../src/http/response.ts";
import { callbackUrlOf } from "./callback-hosts.ts";
import { nameIn, shortNonce, UNCHECKED_ASSET } from "./laws.ts";
import type { Customer, Shop, Surroundings } from "./part.ts";
import {
  type Demand,
  type Payment,
  type Protocol,
  type Purchase,
  protocolOf,
  type Told,
} from "./protocols.ts";
import { Requests } from "./requests.ts";
import { signPayment } from "./sign-payment.ts";
import type { Simulation } from "./simulation.ts";

/** Work that no runner can do. */
export const IMPOSSIBLE = "impossible work";
/** Jobs that are charged before they run, and as used. */
const PATHS = { before: "/x402/jobs/1/0", used: "/x402/jobs/1/1" } as const;
/** Shortest payment after a job that is taken: the job's longest run and the margin before the end. */
const AFTER_SECS = 35;
/** Times that a client sends a payment again, and that it signs another one. */
export const MAX_SENDS = 6;
const MAX_SIGNED = 3;

/** One purchase that a client wants. */
export interface Order {
  /** The client's name for itself. */
  readonly name: string;
  /** No other client has it; below 4096. */
  readonly number: number;
  readonly path: string;
  readonly query?: string;
  /** Begins with the name of the one who is to have paid for it. */
  readonly body: string;
  /** Request whose price is asked for, where that is not the one that is paid for. */
  readonly asksFor?: Partial<Purchase>;
  /** Default: any that the shop sells over. */
  readonly protocol?: Protocol;
  /** Default: before. */
  readonly charge?: ChargeKind;
  /** Longest time, beyond the shortest, that its payments last. */
  readonly longestSecs?: number;
  /** Default: one of its own. */
  readonly payer?: string;
  /** At most one of all payments with this moves. */
  readonly once?: string;
  /** How often it sends another body, too. Default: rarely. */
  readonly otherBodies?: number;
  /** Time between its signature and its first request with it. */
  readonly waitsMs?: number;
  /** Sent with every request. */
  headers?(): Readonly<Record<string, string>>;
  /** Default: any whose chain can be asked. */
  takes?(offer: PaymentRequirements): boolean;
  /** Changes what is demanded before it is signed. */
  changes?(demand: Demand): Demand;
  /** A gateway has written what it demands for a request. */
  onDemands?(request: Purchase, demands: readonly Demand[]): void;
  onSigned?(paid: Payment): void;
  /** The client hears what became of a payment for its own request. */
  onTold?(paid: Payment, told: Told): void;
}

/** Orders of a client who buys what every world sells. */
export function plainOrder(
  simulation: Simulation,
  number: number,
  { callsBack = false }: Pick<Shop, "callsBack">,
): Order {
  const name = `client ${number}`;
  const isPossible = simulation.random(`${name} asks`) >= 0.05;
  const charge = simulation.random(`${name} buys charged after the job`) < 0.3 ? "used" : "before";
  const path = PATHS[charge];
  const url = callsBack ? callbackUrlOf(simulation, name) : undefined;
  return {
    ...{ name, number, path, body: `${name}: ${isPossible ? "work" : IMPOSSIBLE}`, charge },
    ...(url && { headers: () => ({ "callback-url": url }) }),
  };
}

/** Reports whether an offer is one of those that an EVM chain's node confirms. */
export function isChecked({ asset, network }: PaymentRequirements): boolean {
  return asset.toLowerCase() !== UNCHECKED_ASSET && network.startsWith("eip155:");
}

/** A client that buys one run of a job. */
export class Client implements Customer {
  readonly name: string;
  readonly #surroundings: Surroundings;
  readonly #order: Order;
  readonly #requests: Requests;
  readonly #protocol: Protocol;
  #headers: Readonly<Record<string, string>> = {};
  #signed = 0;
  isDone = false;

  constructor(surroundings: Surroundings, order: Order) {
    this.#surroundings = surroundings;
    this.#order = order;
    this.name = order.name;
    this.#protocol =
      order.protocol ?? protocolOf(surroundings, { name: order.name, paysOverMpp: order.charge !== "used" });
    this.#requests = new Requests({ ...surroundings, name: order.name, read: this.#protocol.read });
  }

  start(): void {
    this.#headers = this.#order.headers?.() ?? {};
    this.#askPrice(MAX_SENDS);
  }

  #askPrice(left: number): void {
    if (left === 0) {
      this.#giveUp();
      return;
    }
    const { body, asksFor, onDemands } = this.#order;
    const purchase = { ...this.#purchase(body), ...asksFor };
    const request = this.#protocol.request(purchase);
    const demandsOf = (answer: HttpResponse | undefined) =>
      answer === undefined ? [] : this.#protocol.demandsOf(answer);
    this.#requests.send(
      request,
      this.#says(purchase.body, "without a payment"),
      (answer) => {
        const demands = demandsOf(answer);
        if (demands.length === 0) return this.#requests.later(1_000, () => this.#askPrice(left - 1));
        this.#sign(demands);
      },
      onDemands && ((answer) => onDemands(purchase, demandsOf(answer))),
    );
  }

  #purchase(body: string): Purchase {
    const { path, query } = this.#order;
    return { path, ...(query && { query }), headers: this.#headers, body };
  }

  #sign(demands: readonly Demand[]): void {
    const { simulation, laws } = this.#surroundings;
    const { name, number, charge = "before", longestSecs = 50, once, takes = isChecked } = this.#order;
    const { changes = (same: Demand) => same } = this.#order;
    const scheme = charge === "used" ? "upto" : "exact";
    const offered = demands.filter(({ accepted }) => accepted.scheme === scheme && takes(accepted));
    const taken = simulation.pick(`${name} takes an offer`, offered);
    // Nobody who settles charged after the job is known yet.
    if (taken === undefined) {
      this.#requests.later(1_000, () => this.#askPrice(MAX_SENDS));
      return;
    }
    const demand = changes(taken);
    this.#signed++;
    const { payer = `0x${number.toString(16).padStart(40, "a")}` } = this.#order;
    const shortestSecs = charge === "before" ? 8 : AFTER_SECS;
    const secs = shortestSecs + Math.floor(simulation.random(`${name} signs for seconds`) * longestSecs);
    // The client's own idea of the price.
    const signsLess = simulation.fault(`${name} signs less than the price`, 0.03);
    const { accepted, resource, nonce } = demand;
    const paid = signPayment({
      ...{ resource, accepted, charge, payer, once, nonce, word: this.#signed * 4096 + number },
      amount: signsLess ? String(BigInt(accepted.amount) - 1n) : accepted.amount,
      ends: Math.floor(simulation.wallMs / 1000) + secs,
      client: nameIn(this.#order.body),
    });
    const signed = { ...paid, demand };
    laws.payments.push(signed.payment);
    this.#order.onSigned?.(signed);
    simulation.say(`${name} signs payment ${shortNonce(signed.payment.nonce)} for ${secs} s`);
    const { waitsMs } = this.#order;
    if (waitsMs === undefined) this.#pay(signed, MAX_SENDS);
    else this.#requests.later(waitsMs, () => this.#pay(signed, MAX_SENDS));
  }

  #pay(signed: Payment, left: number): void {
    const { simulation } = this.#surroundings;
    const { name, body, otherBodies = 0.05 } = this.#order;
    if (left === 0) {
      this.#giveUp();
      return;
    }
    if (simulation.fault(`${name} sends twice at once`, 0.1)) this.#post(signed, body, () => undefined);
    if (simulation.fault(`${name} sends another body`, otherBodies)) {
      this.#post(signed, `${body} and more`, () => undefined);
    }
    this.#post(signed, body, (answer) => {
      if (answer !== undefined) this.#order.onTold?.(signed, answer);
      if (answer === undefined || answer.status >= 500 || answer.status === 429)
        return this.#requests.later(2_000, () => this.#pay(signed, left - 1));
      if (answer.status === 202) {
        if (simulation.fault(`${name} sends again what was accepted`, 0.1))
          return this.#requests.later(5_000, () => this.#pay(signed, left - 1));
        this.isDone = true;
      } else if (answer.status === 402 && this.#signed < MAX_SIGNED) this.#askPrice(MAX_SENDS);
      else this.#giveUp();
    });
  }

  #post(signed: Payment, body: string, onAnswer: (told: Told | undefined) => void): void {
    const { laws } = this.#surroundings;
    const { payment } = signed;
    payment.mayBeCharged++;
    const request = this.#protocol.request(this.#purchase(body), signed);
    const wasSent = this.#requests.send(request, this.#says(body, "with its payment"), (answer) => {
      const told = answer && this.#protocol.read(answer);
      if (told !== undefined) laws.heard(payment, body, told);
      onAnswer(told);
    });
    if (!wasSent) payment.mayBeCharged--;
  }

  #says(body: string, how: string): string {
    return `${JSON.stringify(body)} over ${this.#protocol.name} ${how}`;
  }

  #giveUp(): void {
    this.#surroundings.simulation.say(`${this.name} gives up`);
    this.isDone = true;
  }
}
