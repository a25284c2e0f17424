import { decodePaymentRequiredHeader } from "@x402/core/http";
import { MAX_SENDS } from "./client.ts";
import { shortNonce } from "./laws.ts";
import type { Customer, Part, Surroundings } from "./part.ts";
import { Requests } from "./requests.ts";
import { type Signed, signProvably } from "./sign-payment.ts";
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
  readonly #signed: Signed[] = [];
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
    const request = { method: "POST" as const, path: PATH, headers: {}, body: this.#body };
    this.#requests.send(request, "without a payment", (answer) => {
      const required = answer?.headers?.["payment-required"];
      if (answer?.status !== 402 || typeof required !== "string")
        return this.#requests.later(1_000, () => this.#askPrice(left - 1));
      this.#pay(this.#sign(required), MAX_SENDS);
    });
  }

  #sign(required: string): Signed {
    const { simulation, laws } = this.#surroundings;
    const { accepts, resource } = decodePaymentRequiredHeader(required);
    const accepted = accepts.find(({ extra }) => extra.assetTransferMethod !== "permit2");
    if (accepted === undefined) throw new Error("there is no offer to sign");
    const secs =
      SHORTEST_SECS + Math.floor(simulation.random(`${this.name} signs for seconds`) * LONGEST_SECS);
    const signed = signProvably({
      ...{ resource, accepted, amount: accepted.amount },
      payer: `0x${this.#number.toString(16).padStart(40, "a")}`,
      word: (this.#signed.length + 1) * 4096 + this.#number,
      ends: Math.floor(simulation.wallMs / 1000) + secs,
      ...{ client: this.name, once: `the purchase of ${this.name}` },
      extensions: { "payment-identifier": { info: { required: false, id: this.#id } } },
    });
    this.#signed.push(signed);
    laws.payments.push(signed.payment);
    simulation.say(`${this.name} signs payment ${shortNonce(signed.payment.nonce)} for ${secs} s`);
    return signed;
  }

  #pay(signed: Signed, left: number): void {
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

  #post({ payment, header }: Signed, body: string, onStatus: (status: number | undefined) => void): void {
    const { laws } = this.#surroundings;
    payment.mayBeCharged++;
    const request = { method: "POST" as const, path: PATH, headers: { "payment-signature": header }, body };
    const wasSent = this.#requests.send(request, "with its payment", (answer) => {
      const read = JSON.parse(String(answer?.body ?? "{}")) as Record<string, unknown>;
      // Another payment of the purchase may have bought it.
      if (answer?.status === 202) this.#accepted(Number(read.call_id), body);
      else if (answer !== undefined) laws.heard(payment, body, answer.status, read);
      onStatus(answer?.status);
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
