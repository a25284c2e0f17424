import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequirements } from "@x402/core/types";
import type { HttpResponse } from "../../../src/http/response.ts";
import { callbackUrlOf } from "./callback-hosts.ts";
import { shortNonce, UNCHECKED_ASSET } from "./laws.ts";
import type { Customer, Shop, Surroundings } from "./part.ts";
import { Requests } from "./requests.ts";
import { type Signed, signPayment } from "./sign-payment.ts";
import type { Simulation } from "./simulation.ts";

/** Work that no runner can do. */
export const IMPOSSIBLE = "impossible work";
/** Jobs at a fixed price, and by use. */
const PATHS = { fixed: "/x402/jobs/1/0", byUse: "/x402/jobs/1/1" } as const;
/** Shortest payment by use that is taken: the job's longest run and the margin before the end. */
const BY_USE_SECS = 35;
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
  /** Begins with the name of the one who is to have paid for it. */
  readonly body: string;
  readonly isByUse?: boolean;
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
}

/** Orders of a client who buys what every world sells. */
export function plainOrder(
  simulation: Simulation,
  number: number,
  { callsBack = false }: Pick<Shop, "callsBack">,
): Order {
  const name = `client ${number}`;
  const isPossible = simulation.random(`${name} asks`) >= 0.05;
  const isByUse = simulation.random(`${name} buys by use`) < 0.3;
  const path = isByUse ? PATHS.byUse : PATHS.fixed;
  const url = callsBack ? callbackUrlOf(simulation, name) : undefined;
  return {
    ...{ name, number, path, body: `${name}: ${isPossible ? "work" : IMPOSSIBLE}`, isByUse },
    ...(url && { headers: () => ({ "callback-url": url }) }),
  };
}

function isChecked({ asset }: PaymentRequirements): boolean {
  return asset.toLowerCase() !== UNCHECKED_ASSET;
}

/** A client that buys one run of a job. */
export class Client implements Customer {
  readonly name: string;
  readonly #surroundings: Surroundings;
  readonly #order: Order;
  readonly #requests: Requests;
  #headers: Readonly<Record<string, string>> = {};
  #signed = 0;
  isDone = false;

  constructor(surroundings: Surroundings, order: Order) {
    this.#surroundings = surroundings;
    this.#order = order;
    this.name = order.name;
    this.#requests = new Requests({ ...surroundings, name: order.name });
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
    const { path, body } = this.#order;
    const headers = this.#headers;
    this.#requests.send({ method: "POST", path, headers, body }, "without a payment", (answer) => {
      const required = answer?.headers?.["payment-required"];
      if (answer?.status !== 402 || typeof required !== "string")
        return this.#requests.later(1_000, () => this.#askPrice(left - 1));
      this.#sign(required);
    });
  }

  #sign(required: string): void {
    const { simulation, laws } = this.#surroundings;
    const { name, number, isByUse = false, longestSecs = 50, once, takes = isChecked } = this.#order;
    const { accepts, resource } = decodePaymentRequiredHeader(required);
    const scheme = isByUse ? "upto" : "exact";
    const offered = accepts.filter((offer) => offer.scheme === scheme && takes(offer));
    const accepted = simulation.pick(`${name} takes an offer`, offered);
    // Nobody who settles by use is known yet.
    if (accepted === undefined) {
      this.#requests.later(1_000, () => this.#askPrice(MAX_SENDS));
      return;
    }
    this.#signed++;
    const { payer = `0x${number.toString(16).padStart(40, "a")}` } = this.#order;
    const shortestSecs = isByUse ? BY_USE_SECS : 8;
    const secs = shortestSecs + Math.floor(simulation.random(`${name} signs for seconds`) * longestSecs);
    // The client's own idea of the price.
    const signsLess = simulation.fault(`${name} signs less than the price`, 0.03);
    const signed = signPayment({
      ...{ resource, accepted, payer, once, word: this.#signed * 4096 + number },
      amount: signsLess ? String(BigInt(accepted.amount) - 1n) : accepted.amount,
      ends: Math.floor(simulation.wallMs / 1000) + secs,
      client: this.#order.body.split(":", 1)[0] ?? name,
    });
    laws.payments.push(signed.payment);
    simulation.say(`${name} signs payment ${shortNonce(signed.payment.nonce)} for ${secs} s`);
    const { waitsMs } = this.#order;
    if (waitsMs === undefined) this.#pay(signed, MAX_SENDS);
    else this.#requests.later(waitsMs, () => this.#pay(signed, MAX_SENDS));
  }

  #pay(signed: Signed, left: number): void {
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

  #post(
    { payment, header }: Signed,
    body: string,
    onAnswer: (answer: HttpResponse | undefined) => void,
  ): void {
    const { laws } = this.#surroundings;
    const { path } = this.#order;
    payment.mayBeCharged++;
    const request = {
      ...{ method: "POST" as const, path, body },
      headers: { ...this.#headers, "payment-signature": header },
    };
    const wasSent = this.#requests.send(request, "with its payment", (answer) => {
      if (answer !== undefined)
        laws.heard(payment, body, answer.status, JSON.parse(String(answer.body)) as Record<string, unknown>);
      onAnswer(answer);
    });
    if (!wasSent) payment.mayBeCharged--;
  }

  #giveUp(): void {
    this.#surroundings.simulation.say(`${this.name} gives up`);
    this.isDone = true;
  }
}
