import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { hexToBytes, keccak256 } from "viem";
import {
  GetJobPriceRequestSchema,
  GetJobPriceResponseSchema,
} from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { jobQuoteDigest, readUncheckedTerms } from "../../../src/parts/pricing-engine/job-quote.ts";
import { Client, type Order } from "./client.ts";
import { Engine, SIGNING } from "./engine.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import type { Simulation } from "./simulation.ts";

const JOB = 4;
const PATH = `/x402/jobs/1/${JOB}`;
const NUMBERS = [4, 8] as const;
/** First of the numbers that these clients have. */
const FIRST = 2_000;
/** First words in the names of clients who pay the price of the moment, and of those who have a quote. */
const [PRICED, QUOTED] = ["priced", "quoted"];
const MAX_ASKS = 5;
const PATIENCE_MS = 10_000;
/** Longest time that a quote lasts. */
const EXPIRED_MS = 31_000;

/** A job whose price a pricing engine says, at the moment or in a signed quote that one payment redeems. */
export class QuotedJob implements Part {
  readonly #engine: Engine;
  readonly #count: number;

  constructor(simulation: Simulation) {
    this.#engine = new Engine(simulation);
    this.#count = simulation.pick("quoted clients", NUMBERS);
  }

  configure(shop: Shop): Shop {
    const { x402 } = shop;
    const jobs = [...(x402.jobs ?? []), { serviceId: 1n, jobIndex: JOB, price: "engine" } as const];
    return { ...shop, x402: { ...x402, jobs }, engine: this.#engine };
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    const { simulation, laws } = surroundings;
    laws.atEnd(() => {
      for (const payment of laws.payments) {
        const [kind = ""] = payment.client.split(" ");
        if (![PRICED, QUOTED].includes(kind) || laws.stateOf(payment) === undefined) continue;
        const body = laws.bodyOf(payment) ?? `${payment.client}: work`;
        if (!this.#engine.hasPriced(body, payment.amount))
          simulation.break(`${payment.client} pays a price that the operator did not sign for its body`);
      }
    });
    return Array.from({ length: this.#count }, (_, i) => {
      if (i % 2 === 1) return new QuotedClient(surroundings, i);
      const name = `${PRICED} ${i}`;
      const body = `${name}: work`;
      // What it sends has another price than what it asks about, most often.
      const cheats = simulation.random(`${name} cheats`) < 0.3;
      return new Client(surroundings, {
        ...{ name, number: FIRST + i, path: PATH, body, otherBodies: 0.3 },
        ...(cheats && { asksFor: { body: `${body} and less` } }),
      });
    });
  }
}

/** A client with a quote, which it sometimes misuses. */
class QuotedClient implements Customer {
  readonly name: string;
  readonly #number: number;
  readonly #surroundings: Surroundings;
  #clients: readonly Client[] = [];
  #hasGivenUp = false;

  constructor(surroundings: Surroundings, i: number) {
    this.name = `${QUOTED} ${i}`;
    this.#number = FIRST + i;
    this.#surroundings = surroundings;
  }

  get isDone(): boolean {
    return this.#hasGivenUp || (this.#clients.length > 0 && this.#clients.every(({ isDone }) => isDone));
  }

  start(): void {
    this.#ask(MAX_ASKS);
  }

  #ask(left: number): void {
    const { simulation, replicas } = this.#surroundings;
    if (left === 0) {
      this.#hasGivenUp = true;
      return;
    }
    const gateway = simulation.pick(`${this.name} chooses`, replicas).running;
    let isOver = false;
    const end = (message: Buffer | undefined) => {
      if (isOver) return;
      isOver = true;
      const response = message && fromBinary(GetJobPriceResponseSchema, message);
      if (response === undefined || response.settlementOptions.length === 0)
        simulation.at(1_000, simulation.world, () => this.#ask(left - 1));
      else this.#buy(`${jobQuoteDigest(required(readUncheckedTerms(response)), SIGNING)}`);
    };
    simulation.at(PATIENCE_MS, simulation.world, () => end(undefined));
    if (gateway === undefined) return;
    const request = create(GetJobPriceRequestSchema, {
      ...{ serviceId: 1n, jobIndex: JOB, requester: hexToBytes(payerOf(this.#number)) },
      inputsHash: hexToBytes(keccak256(Buffer.from(this.#body))),
    });
    simulation.at(simulation.delay("to gateway", 0.2, 30), gateway.process, () => {
      void gateway
        .askQuote?.(Buffer.from(toBinary(GetJobPriceRequestSchema, request)))
        .then((message) =>
          simulation.at(simulation.delay("from gateway", 0.2, 30), simulation.world, () => end(message)),
        );
    });
  }

  get #body(): string {
    return `${this.name}: work`;
  }

  #buy(digest: string): void {
    const { simulation, laws } = this.#surroundings;
    simulation.say(`${this.name} has the quote ${digest.slice(0, 6)}`);
    const fault = (what: string) => simulation.fault(`${this.name} ${what}`, 0.3);
    const isLate = simulation.fault(`${this.name} comes too late`, 0.5);
    const order: Order = {
      ...{ name: this.name, number: this.#number, path: PATH, body: this.#body },
      ...{ payer: payerOf(this.#number), once: `quote ${digest.slice(0, 6)}`, otherBodies: 0.3 },
      ...(isLate && { waitsMs: EXPIRED_MS, longestSecs: 100 }),
      headers: () => ({ "x-x402-quote-digest": digest }),
    };
    const orders = [order];
    if (fault("pays twice"))
      orders.push({ ...order, name: `${this.name} again`, number: 100 + this.#number });
    const thief = `thief of ${this.name}`;
    if (fault("is robbed of its quote"))
      orders.push({ ...order, name: thief, number: 500 + this.#number, payer: payerOf(500 + this.#number) });
    const client = (one: Order) => new Client(this.#surroundings, one);
    this.#clients = orders.map(client);
    laws.atEnd(() => {
      for (const payment of laws.payments) {
        if (payment.once !== order.once || laws.stateOf(payment) === undefined) continue;
        if (isLate && laws.areClocksRight) simulation.break(`${this.name} redeemed a quote that had ended`);
        if (payment.payer !== order.payer) simulation.break(`${thief} redeemed another's quote`);
        if (payment.bought !== undefined && payment.bought.body !== this.#body)
          simulation.break(`${this.name} redeemed a quote for another input`);
      }
    });
    for (const one of this.#clients) one.start();
  }
}

function payerOf(number: number): `0x${string}` {
  return `0x${number.toString(16).padStart(40, "a")}`;
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("a quote has no terms");
  return value;
}
