import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { HttpResponse } from "../../../src/http/response.ts";
import { PERMIT2_PROXY, UPTO_PROXY } from "../../../src/x402/wire/payer-signature.ts";
import { permit2Nonce } from "./chain-node.ts";
import { type Laws, type SignedPayment, shortNonce } from "./laws.ts";
import type { ClientRequest, Replica } from "./replica.ts";
import type { Simulation } from "./simulation.ts";

/** Work that no runner can do. */
export const IMPOSSIBLE = "impossible work";
/** Jobs at a fixed price, and by use. */
const PATHS = { fixed: "/x402/jobs/1/0", byUse: "/x402/jobs/1/1" } as const;
/** Shortest payment by use that is taken: the job's longest run and the margin before the end. */
const BY_USE_SECS = 35;
/** Times that a client sends a payment again, and that it signs another one. */
const MAX_SENDS = 6;
const MAX_SIGNED = 3;
const PATIENCE_MS = 15_000;

interface Parts {
  readonly simulation: Simulation;
  readonly replicas: readonly Replica[];
  readonly laws: Laws;
  readonly number: number;
}

interface Signed {
  readonly payment: SignedPayment;
  readonly header: string;
}

/** A client that buys one run of a job. */
export class Client {
  readonly #parts: Parts;
  readonly #name: string;
  readonly #body: string;
  readonly #isByUse: boolean;
  #signed = 0;
  isDone = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#name = `client ${parts.number}`;
    this.#body = `${this.#name}: ${parts.simulation.random(`${this.#name} asks`) < 0.05 ? IMPOSSIBLE : "work"}`;
    this.#isByUse = parts.simulation.random(`${this.#name} buys by use`) < 0.3;
  }

  get #path(): string {
    return this.#isByUse ? PATHS.byUse : PATHS.fixed;
  }

  start(): void {
    this.#askPrice(MAX_SENDS);
  }

  #askPrice(left: number): void {
    if (left === 0) {
      this.#giveUp();
      return;
    }
    this.#send({ method: "POST", path: this.#path, headers: {}, body: this.#body }, (answer) => {
      const required = answer?.headers?.["payment-required"];
      if (answer?.status !== 402 || typeof required !== "string")
        return this.#later(1_000, () => this.#askPrice(left - 1));
      this.#sign(required);
    });
  }

  #sign(required: string): void {
    const { simulation, laws, number } = this.#parts;
    const { accepts, resource } = decodePaymentRequiredHeader(required);
    const scheme = this.#isByUse ? "upto" : "exact";
    const offered = accepts.filter((offer) => offer.scheme === scheme);
    const accepted = simulation.pick(`${this.#name} takes an offer`, offered);
    // Nobody who settles by use is known yet.
    if (accepted === undefined) {
      this.#later(1_000, () => this.#askPrice(MAX_SENDS));
      return;
    }
    this.#signed++;
    const payer = `0x${number.toString(16).padStart(40, "a")}`;
    const longestSecs = 50;
    const secs =
      (this.#isByUse ? BY_USE_SECS : 8) +
      Math.floor(simulation.random(`${this.#name} signs for seconds`) * longestSecs);
    const ends = String(Math.floor(simulation.wallMs / 1000) + secs);
    const word = this.#signed * 4096 + number;
    const isPermit2 = accepted.extra.assetTransferMethod === "permit2";
    const nonce = isPermit2 ? permit2Nonce(word) : `0x${word.toString(16).padStart(64, "0")}`;
    const { payTo, asset } = accepted;
    // The client's own idea of the price.
    const signsLess = simulation.fault(`${this.#name} signs less than the price`, 0.03);
    const amount = signsLess ? String(BigInt(accepted.amount) - 1n) : accepted.amount;
    const facilitator = accepted.extra.facilitatorAddress;
    const witness = { to: payTo, validAfter: "0", ...(this.#isByUse && { facilitator }) };
    const spender = this.#isByUse ? UPTO_PROXY : PERMIT2_PROXY;
    const permitted = { token: asset, amount };
    const signed = isPermit2
      ? { permit2Authorization: { from: payer, permitted, spender, nonce, deadline: ends, witness } }
      : {
          authorization: { from: payer, to: payTo, value: amount, nonce, validAfter: "0", validBefore: ends },
        };
    const signature = `0x${"5".repeat(130)}`;
    const payload = { x402Version: 2, resource, accepted, payload: { signature, ...signed } };
    const payment: SignedPayment = {
      ...{ payer, nonce, client: this.#name, isByUse: this.#isByUse },
      ...{ mayBeCharged: 0, hasFailed: false },
    };
    laws.payments.push(payment);
    const header = Buffer.from(JSON.stringify(payload)).toString("base64");
    simulation.say(`${this.#name} signs payment ${shortNonce(nonce)} for ${secs} s`);
    this.#pay({ payment, header }, MAX_SENDS);
  }

  #pay(signed: Signed, left: number): void {
    const { simulation } = this.#parts;
    if (left === 0) {
      this.#giveUp();
      return;
    }
    if (simulation.fault(`${this.#name} sends twice at once`, 0.1))
      this.#post(signed, this.#body, () => undefined);
    if (simulation.fault(`${this.#name} sends another body`, 0.05)) {
      this.#post(signed, `${this.#body} and more`, () => undefined);
    }
    this.#post(signed, this.#body, (answer) => {
      if (answer === undefined || answer.status >= 500 || answer.status === 429)
        return this.#later(2_000, () => this.#pay(signed, left - 1));
      if (answer.status === 202) {
        if (simulation.fault(`${this.#name} sends again what was accepted`, 0.1))
          return this.#later(5_000, () => this.#pay(signed, left - 1));
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
    const { laws } = this.#parts;
    payment.mayBeCharged++;
    const request: ClientRequest = {
      method: "POST",
      path: this.#path,
      headers: { "payment-signature": header },
      body,
    };
    const wasSent = this.#send(request, (answer) => {
      if (answer !== undefined)
        laws.heard(payment, body, answer.status, JSON.parse(String(answer.body)) as Record<string, unknown>);
      onAnswer(answer);
    });
    if (!wasSent) payment.mayBeCharged--;
  }

  /** @returns false when nobody listens, and nothing was sent */
  #send(request: ClientRequest, onAnswer: (answer: HttpResponse | undefined) => void): boolean {
    const { simulation, replicas } = this.#parts;
    const replica = simulation.pick(`${this.#name} chooses`, replicas);
    if (replica.running === undefined) {
      this.#later(300, () => onAnswer(undefined));
      return false;
    }
    let isOver = false;
    const end = (answer: HttpResponse | undefined) => {
      if (isOver) return;
      isOver = true;
      const code = answer?.refusal ?? "";
      simulation.say(`${this.#name} hears ${answer === undefined ? "nothing" : `${answer.status} ${code}`}`);
      onAnswer(answer);
    };
    const paid =
      request.headers["payment-signature"] === undefined ? "without a payment" : "with its payment";
    simulation.say(`${this.#name} sends ${JSON.stringify(request.body)} ${paid}`);
    replica.request(request, (answer) => {
      if (!simulation.fault(`the answer to ${this.#name} is lost`, 0.03)) end(answer);
    });
    this.#later(PATIENCE_MS, () => end(undefined));
    return true;
  }

  #later(delayMs: number, run: () => void): void {
    const { simulation } = this.#parts;
    simulation.at(delayMs, simulation.world, run);
  }

  #giveUp(): void {
    this.#parts.simulation.say(`${this.#name} gives up`);
    this.isDone = true;
  }
}
