import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentPayload, PaymentRequired } from "@x402/core/types";
import pLimit from "p-limit";
import { accounts } from "../test/helpers/accounts.ts";
import { signV2Payment, v2PaymentHeaders } from "../test/helpers/clients.ts";

const MAX_ATTEMPTS = 60;
const RESEND_MS = 1_000;

/** Keeps connections, and costs less of a payment's time than fetch. */
export const agent = new Agent({ keepAlive: true });

/** A request for something that is sold. */
export interface Purchase {
  readonly url: string;
  readonly method: "GET" | "POST";
  /** Status of an answer to a payment that bought it. */
  readonly status: number;
}

/** Requests the offer that payments are signed for. */
export async function askOffer({ url, method }: Purchase): Promise<PaymentRequired> {
  const answer = await fetch(url, { method });
  const header = answer.headers.get("payment-required");
  if (header === null) throw new Error(`expected an offer from ${url}, got ${answer.status}`);
  return decodePaymentRequiredHeader(header);
}

/** Signs payments beforehand, so that signing takes no part in what is measured. */
export async function signPayments(offer: PaymentRequired, count: number): Promise<PaymentPayload[]> {
  const signed = Array.from({ length: count }, () => signV2Payment({ offer, account: accounts.payer }));
  return (await Promise.all(signed)).map(({ payload }) => payload);
}

/** Pays as a client does: where the seller cannot tell yet, the same request is sent again. */
export async function pay(purchase: Purchase, payload: PaymentPayload): Promise<void> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const { status, body } = await send(purchase, payload);
    if (status === purchase.status) return;
    if (status !== 503) throw new Error(`expected ${purchase.status}, got ${status} ${body}`);
    await sleep(RESEND_MS);
  }
  throw new Error(`a payment was not decided after ${MAX_ATTEMPTS} requests`);
}

/** Sends one request with a payment. */
export function send({ url, method }: Purchase, payload: PaymentPayload) {
  return exchange(url, method, method === "POST" ? "bench" : "", v2PaymentHeaders(payload));
}

/** Sends a request over {@link agent}. */
export function exchange(
  url: string,
  method: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number | undefined; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, agent, headers }, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode, body }), reject);
    });
    sent.on("error", (error) => {
      // The server may have closed a connection that was idle: then it has read nothing.
      if (sent.reusedSocket) exchange(url, method, body, headers).then(resolve, reject);
      else reject(error);
    });
    sent.end(body);
  });
}

/** Does work for all payments, some at a time. @returns how many a second */
export async function perSecond(
  payloads: readonly PaymentPayload[],
  inFlight: number,
  work: (payload: PaymentPayload) => Promise<void>,
): Promise<number> {
  const limit = pLimit(inFlight);
  const startedAt = performance.now();
  await Promise.all(payloads.map((payload) => limit(() => work(payload))));
  return (payloads.length / (performance.now() - startedAt)) * 1_000;
}
