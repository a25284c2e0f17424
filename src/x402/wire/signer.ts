import type { SettleResponse } from "@x402/core/types";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { Offer } from "./offer.ts";

/** Signs the offers of 402s, and receipts of delivered calls. Neither changes what can be paid. */
export interface Signer {
  /** Name of the extension that has the signed offers in a 402. */
  readonly extension: string;
  /** Returns the extension: the same object while the same offers are signed. */
  signOffers(offers: readonly Offer[]): Promise<object>;
  /** Returns the settlement of a call that was paid for and delivered, with its receipt. */
  settlementOf(call: CallState): Promise<SettleResponse | undefined>;
  /** Headers of an answer with the result of a call. */
  headersOf(call: CallState): Promise<Readonly<Record<string, string>>>;
}
