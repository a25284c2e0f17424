import { setTimeout as sleep } from "node:timers/promises";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import type { PaymentRequired, SettleResponse } from "@x402/core/types";
import { Refusal } from "../../commands/input.ts";
import { printable } from "../../core/printable.ts";
import type { PayingAccount } from "./account.ts";
import type { Offer } from "./offers.ts";

/** An HTTP answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

/** An offer that is about to be paid. */
export interface ChosenOffer {
  readonly requirements: Offer;
  readonly description: string | undefined;
  readonly payer: string;
  /** Undefined if the seller does not support names of purchases. */
  readonly purchaseName?: string | undefined;
}

interface BuyerOptions {
  readonly account: PayingAccount;
  /** Longest wait for the answer to the payment and for the result. */
  readonly timeoutMs: number;
  /** Returns the offers on networks that may be chosen. @throws Refusal when the account can pay none */
  offersOnNetwork(offers: readonly Offer[]): readonly Offer[];
  /** Returns the offers that may be paid, best first. @throws Refusal when there is none */
  select(offers: readonly Offer[]): Offer[];
  /**
   * Writes the name of the purchase, which all its payments have, into the extensions of a 402.
   * @returns undefined if the seller does not know names
   */
  name(extensions: PaymentRequired["extensions"]): string | undefined;
  /** Runs before anything is signed. @throws Refusal to buy nothing */
  approve(offer: ChosenOffer): Promise<void>;
  /** Runs when the same request is about to be sent again. */
  onRetry(reason: string): void;
}

/** Longest wait for one answer: the longest `Prefer: wait`, and the time for a settlement. */
const REQUEST_TIMEOUT_MS = 120_000;
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 10_000;
/** Most requests for an offer. There are few, because nothing is signed yet, and the URL may be wrong. */
const OFFER_TRIES = 3;

/** Buys with the official client. One payment is signed; if its answer is lost, the same payment is sent again. */
export class Buyer {
  readonly #options: BuyerOptions;
  readonly #client: x402Client;
  readonly #http: x402HTTPClient;
  /** Set when the payment is signed. */
  #deadline: AbortSignal | undefined;
  #isApproved = false;

  constructor(options: BuyerOptions) {
    this.#options = options;
    // `select` bounds the amount instead, because the official limit knows only the tokens of its own table.
    const client = new x402Client().setSpendControls(false);
    client.registerPolicy((_version, offers) => options.select(offers));
    client.onBeforePaymentCreation(({ paymentRequired, selectedRequirements }) =>
      this.#approve(paymentRequired, selectedRequirements),
    );
    this.#client = client;
    this.#http = new x402HTTPClient(client);
  }

  /** @returns the last answer, and whether it was paid for. @throws Refusal when there is none */
  async buy(url: string, init: RequestInit): Promise<{ readonly answer: Answer; readonly isPaid: boolean }> {
    const offered = await this.untilAnswered(url, init, OFFER_TRIES);
    if (offered.status !== 402) return { answer: offered, isPaid: false };
    const { accepts, ...rest } = this.#readOffer(offered);
    const required = { ...rest, accepts: [...this.#options.offersOnNetwork(accepts)] };
    const { account, timeoutMs } = this.#options;
    account.addTo(this.#client, required.accepts);
    const release = await account.channels?.hold(timeoutMs);
    try {
      const first = await this.#pay(url, init, required);
      // The 402 had the sums of the channel, from which the client signs once more.
      return {
        answer: first.isOutdated ? (await this.#pay(url, init, required)).answer : first.answer,
        isPaid: true,
      };
    } finally {
      await release?.();
    }
  }

  /** Signs a payment, and sends it until it is answered. `isOutdated`: the client signed from sums that the seller has corrected. */
  async #pay(url: string, init: RequestInit, required: PaymentRequired) {
    const payload = await this.#http.createPaymentPayload(required).catch((error: unknown) => {
      throw error instanceof Refusal ? error : new Refusal([`The offer cannot be paid: ${reasonOf(error)}`]);
    });
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(this.#http.encodePaymentSignatureHeader(payload)))
      headers.set(name, value);
    this.#deadline ??= AbortSignal.timeout(this.#options.timeoutMs);
    const answer = await this.untilAnswered(url, { ...init, headers });
    if (this.#options.account.channels === undefined) return { answer, isOutdated: false };
    const { recovered: isOutdated } = await this.#http.processPaymentResult(
      payload,
      (name) => answer.headers.get(name),
      answer.status,
    );
    return { answer, isOutdated };
  }

  /** Returns the settlement that an answer names, in any version of x402; undefined if it names none that can be read. */
  settlementOf({ headers }: Answer): SettleResponse | undefined {
    try {
      return this.#http.getPaymentSettleResponse((name) => headers.get(name));
    } catch {
      return undefined;
    }
  }

  /**
   * Sends a request again until it is answered for good, or for the last time. @throws Refusal at the deadline, or when
   * the last try is not answered
   */
  async untilAnswered(url: string, init: RequestInit, tries = Number.POSITIVE_INFINITY): Promise<Answer> {
    let reason = "no time was left";
    for (let told = "", left = tries; !this.#deadline?.aborted; left--) {
      let waitMs = RETRY_MS;
      try {
        const answer = await this.#send(url, init);
        if (!isRetryable(answer) || left === 1) return answer;
        const isWaiting = jsonOf(answer.body).code === "result_not_ready";
        reason = isWaiting ? "the job has no result yet" : refusalText(answer);
        const retryAfterMs = Number(answer.headers.get("retry-after")) * 1_000 || RETRY_MS;
        waitMs = Math.min(Math.max(retryAfterMs, RETRY_MS), MAX_RETRY_MS);
      } catch (error) {
        reason = reasonOf(error);
        if (left === 1) throw new Refusal([`No seller answers at ${url}: ${reason}`]);
      }
      if (reason !== told) this.#options.onRetry(reason);
      told = reason;
      await sleep(waitMs, undefined, { signal: this.#deadline }).catch(() => undefined);
    }
    throw new Refusal([`No final answer from ${new URL(url).origin} in time: ${reason}`]);
  }

  async #send(url: string, init: RequestInit): Promise<Answer> {
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const signal = this.#deadline === undefined ? timeout : AbortSignal.any([this.#deadline, timeout]);
    const response = await fetch(url, { ...init, redirect: "error", signal });
    const body = Buffer.from(await response.arrayBuffer());
    return { status: response.status, headers: response.headers, body };
  }

  #readOffer({ headers, body }: Answer): PaymentRequired {
    try {
      // Version 1 has the offer in the body.
      const json: unknown = headers.has("payment-required") ? undefined : JSON.parse(body.toString());
      return this.#http.getPaymentRequiredResponse((name) => headers.get(name), json);
    } catch (error) {
      throw new Refusal([`The 402 has no x402 offer: ${reasonOf(error)}`]);
    }
  }

  async #approve(required: PaymentRequired, requirements: Offer): Promise<void> {
    const { account, name, approve } = this.#options;
    const purchaseName = name(required.extensions);
    if (this.#isApproved) return;
    this.#isApproved = true;
    await approve({
      requirements,
      description: required.resource?.description,
      payer: account.address,
      purchaseName,
    });
  }
}

/** Returns true for an answer with the result of a job, whatever its status is. */
export function isResult({ status, headers }: Answer): boolean {
  return status === 200 || headers.has("x-call-id");
}

function isRetryable(answer: Answer): boolean {
  if (isResult(answer)) return false;
  const { status, body } = answer;
  const { retryable } = jsonOf(body);
  return typeof retryable === "boolean" ? retryable : status >= 500 || status === 429;
}

/** Returns a refusal in the words of the server. */
export function refusalText({ status, body }: Answer): string {
  const { error, code, reason } = jsonOf(body);
  const words = [code, error, reason].filter((text) => typeof text === "string");
  return [status, ...words.map((text) => printable(text.replace(/\.$/, "")))].join(": ");
}

/** Returns the fields of a JSON object; none for anything else. */
export function jsonOf(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** Node's fetch says "fetch failed", and has the reason as cause. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  if (!(cause instanceof Error)) return message;
  return cause.message || ((cause as NodeJS.ErrnoException).code ?? message);
}
