import type { LocalAccount } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { X402Config } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { ExtendsAnswers } from "../../x402/wire/extensions.ts";
import type { Offer } from "../../x402/wire/offer.ts";
import { JobUrls } from "../../x402/wire/paths.ts";
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

/** Most bytes of the offers as JSON. They are sent in a header with `bazaar`, and come back in the payment's header. */
const MAX_BYTES = 2_560;
/** Bound on the signed offers that are kept, up to 3 KB each, and on the signatures of receipts. */
const MAX_REMEMBERED = 1_000;

type OffersExtension = { readonly [OFFER_RECEIPT]: SignedOffers };

/** Signs offers, and receipts of delivered calls. Neither changes what can be paid. */
export class ReceiptSigner implements ExtendsAnswers {
  readonly #account: LocalAccount;
  readonly #urls: JobUrls;
  readonly #clock: Clock;
  /** Keyed by the payloads, which stay the same for a minute. */
  readonly #signedOffers = boundedCache<string, Promise<OffersExtension>>(MAX_REMEMBERED);
  /**
   * Keyed by the payloads. Signatures are kept because results are requested again, and a signature takes longer than
   * the rest of an answer.
   */
  readonly #signatures = boundedCache<string, Promise<`0x${string}`>>(MAX_REMEMBERED);
  /** Names the key to verifiers who do not find it in `pay_to`. */
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

  /** Returns the signed offers, as the same object while the same offers are signed. */
  ofOffers(offers: readonly Offer[]): Promise<OffersExtension> {
    const payloads = offers.map((offer) => offerPayload(offer, this.#urls.of(offer.job), this.#clock()));
    const key = JSON.stringify(payloads);
    let signed = this.#signedOffers.get(key);
    if (signed === undefined) {
      signed = this.#sign(payloads);
      this.#signedOffers.set(key, signed);
    }
    return signed;
  }

  /** Returns the receipt of a call that was paid for and delivered. The receipt is the same each time. */
  async ofCall(call: CallState): Promise<{ readonly [OFFER_RECEIPT]: SignedReceipt } | undefined> {
    const { state, finishedAt, charge, job } = call;
    if (state !== "succeeded" || finishedAt === undefined || charge?.state === "released") return undefined;
    const { network, payer } = call.payment;
    const payload = {
      version: 1,
      network,
      resourceUrl: this.#urls.of(job),
      payer,
      issuedAt: Math.floor(finishedAt / 1000),
      // A receipt may be shown to anyone, and it stays the same when an operator learns the transaction later.
      transaction: "",
    } as const;
    const signature = await this.#signReceipt(payload);
    const receipt = { format: "eip712", payload, signature } as const;
    return { [OFFER_RECEIPT]: { info: { receipt }, schema: RECEIPT_SCHEMA } };
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

  async #sign(payloads: readonly OfferPayload[]): Promise<OffersExtension> {
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
    return { [OFFER_RECEIPT]: { info: { offers }, schema: OFFERS_SCHEMA } };
  }
}
