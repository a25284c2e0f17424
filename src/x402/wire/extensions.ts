import { encodePaymentResponseHeader } from "@x402/core/http";
import type { SettleResponse } from "@x402/core/types";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { JobDescription, Offer } from "./offer.ts";

type Extensions = JobDescription["extensions"];

/** Extensions of x402, by their names, that a part adds to answers. What they say changes nothing that can be paid. */
export interface ExtendsAnswers {
  /** Returns those of a 402 with these offers: the same object while they stay the same. */
  ofOffers(offers: readonly Offer[]): Promise<Extensions>;
  /** Returns those of the settlement of a call that has its result; undefined if the call has none. */
  ofCall(call: CallState): Promise<Extensions | undefined>;
}

const NONE: Extensions = {};

/** Extensions of a shop's answers beside those that it declares for each job. */
export class AnswerExtensions {
  readonly #parts: readonly ExtendsAnswers[];

  constructor(parts: readonly ExtendsAnswers[] = []) {
    this.#parts = parts;
  }

  /** Returns the extensions of a 402: the same object while they stay the same, if one part has some. */
  async ofOffers(offers: readonly Offer[]): Promise<Extensions> {
    return merged(await Promise.all(this.#parts.map((part) => part.ofOffers(offers))));
  }

  /** Returns the settlement of a call with its extensions; undefined without any. */
  async settlementOf(call: CallState): Promise<SettleResponse | undefined> {
    const found = await Promise.all(this.#parts.map((part) => part.ofCall(call)));
    const extensions = merged(found.filter((one) => one !== undefined));
    if (extensions === NONE) return undefined;
    const { network, payer } = call.payment;
    const settled: SettleResponse =
      call.settlement === undefined
        ? { success: true, transaction: "", network: network as SettleResponse["network"], payer }
        : JSON.parse(call.settlement);
    return { ...settled, extensions: { ...settled.extensions, ...extensions } };
  }

  /** Headers of an answer with the result of a call. */
  async headersOf(call: CallState): Promise<Readonly<Record<string, string>>> {
    const settled = await this.settlementOf(call);
    return settled === undefined ? {} : { "payment-response": encodePaymentResponseHeader(settled) };
  }
}

function merged(all: readonly Extensions[]): Extensions {
  return all.length > 1 ? Object.assign({}, ...all) : (all[0] ?? NONE);
}
