import { soldByBoth } from "../../helpers/protocol-tables.ts";
import { MAX_SENDS } from "./client.ts";
import type { Customer, Part, Surroundings } from "./part.ts";
import { type Demand, demandOf, MPP, type Payment, type Told } from "./protocols.ts";
import { Requests } from "./requests.ts";
import { signPayment } from "./sign-payment.ts";

const PATH = "/x402/jobs/1/0";
const OTHER_JOB = 9;
/** First of the numbers that these clients have. */
const FIRST = 1_700;
const CHALLENGE_SECS = 60;
const MAX_TRIES = 3;

/** Change that a client makes to a challenge, or to its answer. */
interface Misfit {
  readonly demand?: (demand: Demand) => Demand;
  readonly source?: string;
  readonly path?: string;
  readonly body?: string;
  readonly waitsMs?: number;
}

/** Ways in which a payment does not fit its challenge. */
const MISFITS: Readonly<Record<string, Misfit>> = {
  "a nonce of its own": { demand: (demand) => ({ ...demand, nonce: `0x${"9".repeat(64)}` }) },
  "a challenge of its own": {
    demand: ({ challenge, ...demand }) => (challenge ? demandOf({ ...challenge, id: "its-own" }) : demand),
  },
  "the name of another payer": { source: `did:pkh:eip155:84532:0x${"e".repeat(40)}` },
  "another body": { body: "another body" },
  "another job": { path: `/x402/jobs/1/${OTHER_JOB}` },
  "a challenge that has ended": { waitsMs: (CHALLENGE_SECS + 1) * 1_000 },
};

/** Shops that sell over MPP and MCP, too, and clients whose payments do not fit their challenges. */
export const MORE_PROTOCOLS: Part = {
  configure({ x402, ...shop }) {
    const parts = soldByBoth({
      realm: "shop.example",
      secretKeys: ["the key of challenges"],
      challengeTtlSecs: CHALLENGE_SECS,
    });
    const price = x402.jobPricing.get("1/0") ?? 0n;
    const jobPricing = new Map([...x402.jobPricing, [`1/${OTHER_JOB}`, price]]);
    return { ...shop, x402: { ...x402, jobPricing, parts } };
  },
  customers: (surroundings) =>
    Object.entries(MISFITS).map(
      ([what, misfit], i) => new MisfitClient(surroundings, { what, misfit, number: FIRST + i }),
    ),
};

/** A client whose payment does not fit its challenge, and must be refused before anything is known of it. */
class MisfitClient implements Customer {
  readonly name: string;
  readonly #surroundings: Surroundings;
  readonly #misfit: Misfit;
  readonly #what: string;
  readonly #number: number;
  readonly #requests: Requests;
  isDone = false;

  constructor(
    surroundings: Surroundings,
    parts: { readonly what: string; readonly misfit: Misfit; readonly number: number },
  ) {
    this.name = `client with ${parts.what}`;
    this.#surroundings = surroundings;
    this.#misfit = parts.misfit;
    this.#what = parts.what;
    this.#number = parts.number;
    this.#requests = new Requests({ ...surroundings, name: this.name });
  }

  start(): void {
    this.#askPrice(MAX_SENDS);
  }

  get #body(): string {
    return `${this.name}: work`;
  }

  #askPrice(left: number): void {
    if (left === 0) {
      this.isDone = true;
      return;
    }
    const request = MPP.request({ path: PATH, headers: {}, body: this.#body });
    this.#requests.send(request, "for a challenge", (answer) => {
      const [demand] = answer === undefined ? [] : MPP.demandsOf(answer);
      if (demand === undefined) return this.#requests.later(1_000, () => this.#askPrice(left - 1));
      const { demand: change = (same: Demand) => same, source, waitsMs = 0 } = this.#misfit;
      const payment = { ...this.#sign(change(demand)), ...(source && { source }) };
      this.#surroundings.laws.payments.push(payment.payment);
      this.#requests.later(waitsMs, () => this.#pay(payment, MAX_TRIES));
    });
  }

  #sign(demand: Demand): Payment {
    const { accepted, nonce } = demand;
    const ends = Math.floor(this.#surroundings.simulation.wallMs / 1000) + 3 * CHALLENGE_SECS;
    const payer = `0x${this.#number.toString(16).padStart(40, "a")}`;
    const terms = { accepted, amount: accepted.amount, payer, nonce, word: this.#number, ends };
    return { ...signPayment({ ...terms, resource: undefined, client: this.name }), demand };
  }

  #pay(payment: Payment, left: number): void {
    if (left === 0) {
      this.isDone = true;
      return;
    }
    const { path = PATH, body = this.#body } = this.#misfit;
    if (this.#isExcused) payment.payment.mayBeCharged++;
    const request = MPP.request({ path, headers: {}, body }, payment);
    this.#requests.send(request, `a payment with ${this.#what}`, (answer) => {
      if (answer !== undefined) this.#heard(MPP.read(answer));
      this.#requests.later(1_000, () => this.#pay(payment, left - 1));
    });
  }

  #heard({ status, body }: Told): void {
    // A store that cannot be asked may know the payment.
    const isTaken = status === 202 || (body.charged === "unknown" && body.code !== "store_unavailable");
    if (isTaken && !this.#isExcused)
      this.#surroundings.simulation.break(`a payment with ${this.#what} was taken`);
  }

  /** A gateway whose clock is wrong may take what has ended. */
  get #isExcused(): boolean {
    return this.#misfit.waitsMs !== undefined && !this.#surroundings.laws.areClocksRight;
  }
}
