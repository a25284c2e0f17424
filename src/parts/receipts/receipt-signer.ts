import { encodePaymentResponseHeader } from "@x402/core/http";
import type { SettleResponse } from "@x402/core/types";
import type { LocalAccount } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { X402Config } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import { JobUrls } from "../../x402/jobs/job-urls.ts";
import type { Offer } from "../../x402/wire/offer.ts";
import type { Signer } from "../../x402/wire/signer.ts";
import type { ReceiptsConfig } from "./config.ts";
import { didRoute } from "./did-document.ts";
import {
  OFFER_DOMAIN,
  OFFER_RECEIPT,
  OFFER_TYPES,
  OFFERS_SCHEMA,
  type OfferPayload,
  offerPayload,
  RECEIPT_DOMAIN,
  RECEIPT_SCHEMA,
  RECEIPT_TYPES,
  type Signed,
  type SignedOffers,
  type SignedReceipt,
} from "./offer-receipt.ts";

/** Most bytes of the offers as JSON. They go out in a header with `bazaar`, and come back in the payment's. */
const MAX_BYTES = 2_560;
/** Bound on the signed offers that are kept, up to 3 KB each, and on the signatures of receipts. */
const MAX_REMEMBERED = 1_000;

/** Signs offers, and receipts of delivered calls. Neither changes what can be paid. */
export class ReceiptSigner implements Signer {
  readonly extension = OFFER_RECEIPT;
  readonly #account: LocalAccount;
  readonly #urls: JobUrls;
  readonly #clock: Clock;
  /** Keyed by the payloads, which stay the same for a minute. */
  readonly #signedOffers = boundedCache<string, Promise<SignedOffers>>(MAX_REMEMBERED);
  /** Keyed by the payloads: results are asked for again, and a signature takes longer than the rest of an answer. */
  readonly #signatures = boundedCache<string, Promise<`0x${string}`>>(MAX_REMEMBERED);
  /** Names the key to those who do not find it in `pay_to`. */
  readonly didRoute: ReturnType<typeof didRoute>;

  constructor(parts: {
    readonly config: ReceiptsConfig;
    readonly x402: Pick<X402Config, "publicUrl" | "jobs">;
    readonly clock: Clock;
  }) {
    this.#account = privateKeyToAccount(parts.config.signer.privateKey);
    this.#urls = new JobUrls(parts.x402);
    this.#clock = parts.clock;
    this.didRoute = didRoute(parts.x402.publicUrl, this.#account);
  }

  /** Returns the same object while the same offers are signed. */
  signOffers(offers: readonly Offer[]): Promise<SignedOffers> {
    const payloads = offers.map((offer) => offerPayload(offer, this.#urls.of(offer.job), this.#clock()));
    const key = JSON.stringify(payloads);
    let signed = this.#signedOffers.get(key);
    if (signed === undefined) {
      signed = this.#sign(payloads);
      this.#signedOffers.set(key, signed);
    }
    return signed;
  }

  /** Returns the settlement of a call that was paid for and delivered, with the same receipt each time. */
  async settlementOf(call: CallState) {
    const { state, finishedAt, charge, settlement, job } = call;
    if (state !== "succeeded" || finishedAt === undefined || charge?.state === "released") return undefined;
    const { network, payer } = call.payment;
    const payload = {
      version: 1,
      network,
      resourceUrl: this.#urls.of(job),
      payer,
      issuedAt: Math.floor(finishedAt / 1000),
      // A receipt may be shown around, and it stays the same when an operator learns the transaction later.
      transaction: "",
    } as const;
    const signature = await this.#signReceipt(payload);
    const settled: SettleResponse =
      settlement === undefined
        ? { success: true, transaction: "", network: network as SettleResponse["network"], payer }
        : JSON.parse(settlement);
    const receipt = { format: "eip712", payload, signature } as const;
    const extension = { info: { receipt }, schema: RECEIPT_SCHEMA };
    return { ...settled, extensions: { ...settled.extensions, [OFFER_RECEIPT]: extension } };
  }

  /** Headers of an answer with the result of a call. */
  async headersOf(call: CallState): Promise<Record<string, string>> {
    const settled = await this.settlementOf(call);
    return settled === undefined ? {} : { "payment-response": encodePaymentResponseHeader(settled) };
  }

  #signReceipt(payload: SignedReceipt["info"]["receipt"]["payload"]): Promise<`0x${string}`> {
    const key = JSON.stringify(payload);
    const known = this.#signatures.get(key);
    if (known !== undefined) return known;
    const signature = this.#account.signTypedData({
      domain: RECEIPT_DOMAIN,
      types: RECEIPT_TYPES,
      primaryType: "Receipt",
      message: { ...payload, version: BigInt(payload.version), issuedAt: BigInt(payload.issuedAt) },
    });
    this.#signatures.set(key, signature);
    return signature;
  }

  async #sign(payloads: readonly OfferPayload[]): Promise<SignedOffers> {
    const offers: (Signed<OfferPayload> & { acceptIndex: number })[] = [];
    for (const [acceptIndex, payload] of payloads.entries()) {
      const signature = await this.#account.signTypedData({
        domain: OFFER_DOMAIN,
        types: OFFER_TYPES,
        primaryType: "Offer",
        message: { ...payload, version: BigInt(payload.version), validUntil: BigInt(payload.validUntil) },
      });
      offers.push({ format: "eip712", acceptIndex, payload, signature });
      if (Buffer.byteLength(JSON.stringify(offers)) <= MAX_BYTES) continue;
      offers.pop();
      break;
    }
    return { info: { offers }, schema: OFFERS_SCHEMA };
  }
}
