import { createHash, hash } from "node:crypto";
import { GatewayError } from "../../core/errors.ts";
import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../core/payment.ts";
import type { JobRequest } from "../../http/request.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";
import type { PaymentReader, SignedPayment, SignedToken } from "../methods/method.ts";
import { requirementsOf } from "../settlement/payment-outcome.ts";
import { isSignedByPayer } from "../wire/match-offer.ts";
import type { Offer } from "../wire/offer.ts";

/** The request that a payment buys, from the payment's row. */
type RequestBinding = Pick<PaymentIntent, "bodyHash" | "boundHeaders">;

type BoundParts = Pick<JobRequest, "method" | "path" | "query" | "headerValues">;

/**
 * Binds a payment to the body of its request, and at a job's own route to the whole request: method, path, query, the
 * headers that are named, Content-Encoding and body, byte for byte. docs/selling.md describes the form for programs that
 * sign it.
 * @param boundHeaders sorted names joined by commas; undefined for a job that is bought at its ids
 */
export function bindRequest(
  request: BoundParts,
  body: Uint8Array,
  boundHeaders: string | undefined,
): RequestBinding {
  if (boundHeaders === undefined) return { bodyHash: hash("sha256", body), boundHeaders };
  const head = headOf(request, boundHeaders.split(","));
  return { bodyHash: createHash("sha256").update(head, "latin1").update(body).digest("hex"), boundHeaders };
}

/** Returns the hash of a whole request; undefined for a payment that is bound to a body alone. */
export function requestHashOf({ bodyHash, boundHeaders }: RequestBinding): string | undefined {
  return boundHeaders === undefined ? undefined : bodyHash;
}

/** No part of a request's head contains a line break, so two different heads never have the same lines. */
function headOf(request: BoundParts, names: readonly string[]): string {
  const { method, path, query } = request;
  const bound = [...new Set([...names, "content-encoding"])].sort();
  const headers = bound.flatMap((name) => request.headerValues(name).map((value) => `${name}: ${value}`));
  return `${[method, path, query, ...headers].join("\n")}\n\n`;
}

type Journal = Pick<
  PaymentJournal,
  "findPayment" | "findPaymentByFingerprint" | "findPaymentByPurchaseName" | "hasLoss"
>;

/** Journalled payments whose outcome a request may need again. */
export class EarlierPayments {
  readonly #journal: Journal;
  readonly #tokens: readonly SignedToken[];

  constructor(parts: { readonly journal: Journal; readonly tokens: readonly SignedToken[] }) {
    this.#journal = parts.journal;
    this.#tokens = parts.tokens;
  }

  /**
   * Finds the payment itself, or another payment of the same purchase: with the same name, or with `key` if it is given.
   * @throws GatewayError `store_unavailable`; while the store is unavailable, this may be the resend of a charged payment
   */
  async find(
    { fingerprint, purchaseName: name, from: payer }: SignedPayment,
    key?: PaymentKey,
  ): Promise<PaymentRecord | undefined> {
    const journal = this.#journal;
    try {
      const [same, named] = await Promise.all([
        journal.findPaymentByFingerprint(fingerprint),
        name === undefined ? undefined : journal.findPaymentByPurchaseName({ payer, name }),
      ]);
      return same ?? named ?? (key && (await journal.findPayment(key)));
    } catch (cause) {
      if (!(cause instanceof GatewayError)) throw cause;
      throw new GatewayError(
        "store_unavailable",
        "The store is unavailable, so this payment cannot be matched with earlier requests. This request charged nothing: send the same request again.",
        { cause, details: { charged: "unknown" }, headers: { "retry-after": "5" } },
      );
    }
  }

  /**
   * Finds the payment as {@link find} does. Returns undefined if only the purchase name matches, because the payer did not
   * sign the name.
   */
  async findOwn(payment: SignedPayment): Promise<PaymentRecord | undefined> {
    const known = await this.find(payment);
    return known && (await this.isFromPayer(payment, known)) ? known : undefined;
  }

  /**
   * Checks that the payment is the known payment, or that its payer signed it. Does not verify signatures of smart accounts.
   */
  async isFromPayer(payment: SignedPayment, known: PaymentRecord): Promise<boolean> {
    if (payment.fingerprint === known.fingerprint) return true;
    const { network, asset, payTo, extra } = requirementsOf(known);
    const { transferMethod } = known;
    const eip3009 = { name: String(extra.name), version: String(extra.version) };
    // The first payment's token may have left the configuration since.
    const before = { network, asset, payTo, transferMethod, eip3009 } as SignedToken;
    return isSignedByPayer(payment, [...this.#tokens, before]);
  }

  /**
   * Refuses a payer who owes for a job, because a charge after a job failed within the last day.
   * @throws GatewayError `payment_invalid` for an offer that is charged after the job
   */
  async requireNoLoss({ from: payer }: SignedPayment, { charge }: Pick<Offer, "charge">): Promise<void> {
    if (charge === undefined || !(await this.#journal.hasLoss(payer))) return;
    throw new GatewayError(
      "payment_invalid",
      "An earlier job of this payer was done and could not be charged, so for a day the payer can buy only jobs that are charged before they run. Nothing was charged.",
    );
  }

  /** Checks that the payer signed the payment, in a token that is accepted now. */
  isSignedByPayer(payment: SignedPayment): Promise<boolean> {
    return isSignedByPayer(payment, this.#tokens);
  }
}

/** Reads the payment of a request; undefined also for a payment that cannot be read. */
export function readablePayment(request: JobRequest, protocol: PaymentReader): SignedPayment | undefined {
  try {
    return protocol.readPayment(request);
  } catch (error) {
    if (error instanceof GatewayError) return undefined;
    throw error;
  }
}
