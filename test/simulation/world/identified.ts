import { MAX_SENDS } from "./client.ts";
import { shortNonce } from "./laws.ts";
import type { Customer, Part, Surroundings } from "./part.ts";
import { type Demand, type Payment, X402 } from "./protocols.ts";
import { Requests } from "./requests.ts";
import { signProvably } from "./sign-payment.ts";
import type { Simulation } from "./simulation.ts";

const NUMBERS = [3, 6] as const;
/** First of the numbers that these clients have. */
const FIRST = 1_300;
const PATH = "/x402/jobs/1/0";
const MAX_SIGNED = 3;
const [SHORTEST_SECS, LONGEST_SECS] = [8, 50];

/** Clients that give all payments of one purchase one identifier. */
export class IdentifiedClients implements Part {
  readonly #count: number;

  constructor(simulation: Simulation) {
    this.#count = simulation.pick("identified clients", NUMBERS);
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    return Array.from({ length: this.#count }, (_, i) => new IdentifiedClient(surroundings, i));
  }
}

class IdentifiedClient implements Customer {
  readonly name: string;
  readonly #number: number;
  readonly #surroundings: Surroundings;
  readonly #requests: Requests;
  readonly #body: string;
  readonly #id: string;
  readonly #signed: Payment[] = [];
  /** The purchase that was accepted first. */
  #bought: { readonly callId: number; readonly body: string } | undefined;
  /** Requests, each with those that follow from its answer, that are under way. */
  #underway = 1;

  constructor(surroundings: Surroundings, i: number) {
    this.name = `identified ${i}`;
    this.#surroundings = surroundings;
    this.#number = FIRST + i;
    this.#requests = new Requests({ ...surroundings, name: this.name });
    this.#body = `${this.name}: work`;
    this.#id = `purchase-of-identified-${i}`;
    surroundings.laws.atEnd(() => this.#checkEnd());
  }

  get isDone(): boolean {
    return this.#underway === 0;
  }

  start(): void {
    this.#askPrice(MAX_SENDS);
  }

  /** Signs one more payment for the purchase, and pays with it. */
  #askPrice(left: number): void {
    if (left === 0 || this.#signed.length >= MAX_SIGNED) {
      this.#underway--;
      return;
    }
    const request = X402.request({ path: PATH, headers: {}, body: this.#body });
    this.#requests.send(request, `${JSON.stringify(this.#body)} without a payment`, (answer) => {
      const demands = answer === undefined ? [] : X402.demandsOf(answer);
      if (demands.length === 0) return this.#requests.later(1_000, () => this.#askPrice(left - 1));
      this.#pay(this.#sign(demands), MAX_SENDS);
    });
  }

  #sign(demands: readonly Demand[]): Payment {
    const { simulation, laws } = this.#surroundings;
    const demand = demands.find(({ accepted }) => accepted.extra.assetTransferMethod !== "permit2");
    if (demand === undefined) throw new Error("there is no offer to sign");
    const { accepted, resource } = demand;
    const secs =
      SHORTEST_SECS + Math.floor(simulation.random(`${this.name} signs for seconds`) * LONGEST_SECS);
    const proof = signProvably({
      ...{ resource, accepted, amount: accepted.amount },
      payer: `0x${this.#number.toString(16).padStart(40, "a")}`,
      word: (this.#signed.length + 1) * 4096 + this.#number,
      ends: Math.floor(simulation.wallMs / 1000) + secs,
      ...{ client: this.name, once: `the purchase of ${this.name}` },
      extensions: { "payment-identifier": { info: { required: false, id: this.#id } } },
    });
    const signed = { ...proof, demand };
    this.#signed.push(signed);
    laws.payments.push(signed.payment);
    simulation.say(`${this.name} signs payment ${shortNonce(signed.payment.nonce)} for ${secs} s`);
    return signed;
  }

  #pay(signed: Payment, left: number): void {
    const { simulation } = this.#surroundings;
    if (left === 0) {
      this.#underway--;
      return;
    }
    if (simulation.fault(`${this.name} asks for something else`, 0.1)) {
      this.#underway++;
      this.#post(signed, `${this.#body} and more`, () => {
        this.#underway--;
      });
    }
    if (simulation.fault(`${this.name} signs again at once`, 0.3)) {
      this.#underway++;
      this.#askPrice(1);
    }
    this.#post(signed, this.#body, (status) => {
      if (status === 202 || status === 409) this.#underway--;
      else if (status === 402) this.#askPrice(MAX_SENDS);
      else if (simulation.fault(`${this.name} signs again`, 0.3)) this.#askPrice(MAX_SENDS);
      else this.#requests.later(2_000, () => this.#pay(signed, left - 1));
    });
  }

  #post(signed: Payment, body: string, onStatus: (status: number | undefined) => void): void {
    const { laws } = this.#surroundings;
    const { payment } = signed;
    payment.mayBeCharged++;
    const request = X402.request({ path: PATH, headers: {}, body }, signed);
    const wasSent = this.#requests.send(request, `${JSON.stringify(body)} with its payment`, (answer) => {
      const told = answer && X402.read(answer);
      // Another payment of the purchase may have bought it.
      if (told?.status === 202) this.#accepted(Number(told.body.call_id), body);
      else if (told !== undefined) laws.heard(payment, body, told);
      onStatus(told?.status);
    });
    if (!wasSent) payment.mayBeCharged--;
  }

  #accepted(callId: number, body: string): void {
    const { simulation } = this.#surroundings;
    this.#bought ??= { callId, body };
    const { callId: first, body: firstBody } = this.#bought;
    if (first !== callId || firstBody !== body)
      simulation.break(`the purchase of ${this.name} is JobCall ${first} and ${callId}`);
  }

  #checkEnd(): void {
    const { simulation, laws } = this.#surroundings;
    const settled = this.#signed.filter(({ payment }) => laws.stateOf(payment) === "settled").length;
    if (this.#bought !== undefined && settled !== 1)
      simulation.break(`the purchase of ${this.name} was accepted, and ${settled} payments were settled`);
  }
}
