import type { HttpResponse } from "../../../src/http/response.ts";
import { shortNonce } from "./laws.ts";
import type { Customer, Surroundings } from "./part.ts";
import { type Payment, X402 } from "./protocols.ts";
import type { ClientRequest } from "./replica.ts";
import { Requests } from "./requests.ts";
import { signPayment } from "./sign-payment.ts";
import type { Answers } from "./sold-api.ts";

/** Shortest payment that is taken: the longest run and the margin before the end. */
const SHORTEST_SECS = 22;
const MAX_SENDS = 8;
/** Bytes that are kept of an answer that is not charged. */
const MOST_UNCHARGED = 65_536;
/** Payments of one client: more than one, so that a refused charge has a next time. */
const MAX_SIGNED = 3;

interface Order {
  readonly name: string;
  readonly number: number;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly answers: Answers;
}

/** A client that buys answers of an API, and asks for each again. */
export class ApiClient implements Customer {
  readonly name: string;
  readonly #surroundings: Surroundings;
  readonly #order: Order;
  readonly #requests: Requests;
  #signed = 0;
  /** Nonces of payments whose answers were sent, heard or not. */
  readonly #sent = new Set<string>();
  /** A charge of it was refused: it is barred. */
  #isBarred = false;
  isDone = false;

  constructor(surroundings: Surroundings, order: Order) {
    this.#surroundings = surroundings;
    this.#order = order;
    this.name = order.name;
    const read = ({ status }: HttpResponse) => ({ status, body: {} });
    this.#requests = new Requests({ ...surroundings, name: order.name, read });
  }

  start(): void {
    this.#askPrice(MAX_SENDS);
  }

  #request(headers: Readonly<Record<string, string>> = {}): ClientRequest {
    const { method, path } = this.#order;
    return { method, path, headers, body: method === "GET" ? "" : this.name };
  }

  #askPrice(left: number): void {
    if (left === 0) {
      this.isDone = true;
      return;
    }
    this.#requests.send(this.#request(), "without a payment", (answer) => {
      const demands = answer === undefined ? [] : X402.demandsOf(answer);
      const [demand] = demands.filter(({ accepted }) => accepted.extra.assetTransferMethod !== "permit2");
      if (demand === undefined) return this.#requests.later(1_000, () => this.#askPrice(left - 1));
      const { simulation, laws } = this.#surroundings;
      const { number, name } = this.#order;
      const secs = SHORTEST_SECS + Math.floor(simulation.random(`${name} signs for seconds`) * 60);
      const paid = signPayment({
        ...{ resource: demand.resource, accepted: demand.accepted, charge: "after", client: name },
        ...{ payer: `0x${number.toString(16).padStart(40, "a")}`, word: ++this.#signed * 4096 + number },
        ...{ amount: demand.accepted.amount, ends: Math.floor(simulation.wallMs / 1000) + secs },
      });
      laws.payments.push(paid.payment);
      simulation.say(`${name} signs payment ${shortNonce(paid.payment.nonce)} for ${secs} s`);
      this.#pay({ ...paid, demand }, MAX_SENDS, undefined);
    });
  }

  /** @param first the answer that this payment had before */
  #pay(paid: Payment, left: number, first: HttpResponse | undefined): void {
    const { simulation } = this.#surroundings;
    if (left === 0) {
      this.#next();
      return;
    }
    if (simulation.fault(`${this.name} sends twice at once`, 0.1)) this.#send(paid, first, () => undefined);
    this.#send(paid, first, (answer) => {
      const isOpen = answer === undefined || [202, 429, 503].includes(answer.status);
      if (isOpen) return this.#requests.later(2_000, () => this.#pay(paid, left - 1, first));
      const asksAgain = first === undefined && simulation.random(`${this.name} asks again`) < 0.5;
      // What was refused before it was journalled may be bought later: a clock that was wrong is set.
      const isFinal = answer.refusal === undefined || answer.refusal === "settlement_failed";
      const known = isFinal ? answer : undefined;
      if (asksAgain) return this.#requests.later(5_000, () => this.#pay(paid, MAX_SENDS, known));
      this.#next();
    });
  }

  #next(): void {
    const { simulation } = this.#surroundings;
    const buysAgain = this.#signed < MAX_SIGNED && simulation.random(`${this.name} buys again`) < 0.5;
    if (buysAgain) this.#requests.later(1_000, () => this.#askPrice(MAX_SENDS));
    else this.isDone = true;
  }

  #send(
    paid: Payment,
    first: HttpResponse | undefined,
    onAnswer: (answer: HttpResponse | undefined) => void,
  ): void {
    const { payment } = paid;
    payment.mayBeCharged++;
    const { headers } = X402.request({ path: "", headers: {}, body: "" }, paid);
    const wasSent = this.#requests.send(
      this.#request(headers),
      "with its payment",
      (answer) => {
        if (answer !== undefined) this.#hear(paid, answer, first);
        onAnswer(answer);
      },
      ({ onSent }) => {
        if (onSent !== undefined) this.#sent.add(payment.nonce);
      },
    );
    if (!wasSent) payment.mayBeCharged--;
  }

  /** Checks an answer to a request with a payment. */
  #hear({ payment }: Payment, answer: HttpResponse, first: HttpResponse | undefined): void {
    const { simulation, laws } = this.#surroundings;
    const { status, body, headers = {} } = answer;
    const name = `payment ${shortNonce(payment.nonce)} of ${this.name}`;
    if (status === 202 || status === 503) {
      laws.heard(payment, "", told(answer));
      return;
    }
    if (answer.refusal === "result_not_kept") {
      if (!this.#sent.has(payment.nonce))
        simulation.break(`the answer to ${name} is forgotten, and was not sent`);
      return;
    }
    const isSame =
      first === undefined || (first.status === status && (status === 402 || isEqual(first.body, body)));
    if (!isSame) simulation.break(`${name} had ${first?.status}, and then ${status}`);
    if (answer.refusal !== undefined) {
      if (answer.refusal === "settlement_failed") this.#isBarred = true;
      laws.heard(payment, "", told(answer));
      return;
    }
    if (status >= 300) {
      if (headers["x-charged"] !== "false") simulation.break(`${name} is charged for ${status}`);
      if (Buffer.byteLength(body) > MOST_UNCHARGED) simulation.break(`${name} has all of a long ${status}`);
      // A charge after this is one after a no.
      payment.hasFailed = true;
      return;
    }
    if (this.#isBarred) simulation.break(`${this.name} could not be charged, and then has an answer`);
    if (!laws.hasMoved(payment)) simulation.break(`${name} has its answer, and nothing has moved`);
    if (headers["payment-response"] === undefined || headers["payment-response"] === "forged")
      simulation.break(`the answer to ${name} does not say what it was charged`);
    const isTrue = this.#order.answers
      .get(this.name)
      ?.some((one) => one.status === status && one.text === Buffer.from(body).toString());
    if (isTrue !== true) simulation.break(`${name} has an answer that the API never gave`);
  }
}

function told({ status, body }: HttpResponse) {
  return { status, body: JSON.parse(String(body)) };
}

function isEqual(left: string | Uint8Array, right: string | Uint8Array): boolean {
  return Buffer.from(left).equals(Buffer.from(right));
}
