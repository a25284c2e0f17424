import { isDeepStrictEqual } from "node:util";
import { encodePaymentResponseHeader } from "@x402/core/http";
import type { SettleResponse } from "@x402/core/types";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { isObject } from "../../core/objects.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { Methods } from "../methods/methods.ts";
import type { JobDescription, Offer } from "./offer.ts";
import type { Payload } from "./version.ts";

type Extensions = JobDescription["extensions"];

/** Extensions of x402, by name, that a part adds to answers. They do not change what can be paid. */
export interface ExtendsAnswers {
  /** Returns the extensions of a 402 with these offers. Returns the same object while the extensions do not change. */
  ofOffers(offers: readonly Offer[]): Promise<Extensions>;
  /** Returns the extensions of the settlement of a call that has its result; undefined if there are none. */
  ofCall(call: CallState): Promise<Extensions | undefined>;
}

const NONE: Extensions = {};

/** Extensions of a shop's answers in addition to the extensions that it declares for each job. */
export class AnswerExtensions {
  readonly #parts: readonly ExtendsAnswers[];

  constructor(parts: readonly ExtendsAnswers[] = []) {
    this.#parts = parts;
  }

  /**
   * Returns the extensions of a 402. Returns the same object while the extensions do not change and only one part has
   * extensions.
   */
  async ofOffers(offers: readonly Offer[]): Promise<Extensions> {
    return merged(await Promise.all(this.#parts.map((part) => part.ofOffers(offers))));
  }

  /** Returns the settlement of a call with its extensions; undefined if there are no extensions. */
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

interface Parts {
  /** Extensions that the 402 of a job declares at this configuration. */
  readonly descriptions: { of(job: JobKey): Pick<JobDescription, "extensions"> };
  readonly methods: Methods;
  readonly clock: Clock;
}

/** Checks that payments send declared extensions back as they are, at one configuration. */
export class ExtensionEchoes {
  readonly #parts: Parts;
  /** Echoes of the previous configuration, while offers made under it are open. */
  #earlier: { readonly echoes: ExtensionEchoes; readonly untilMs: number } | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Accepts payments that send back the extensions of an earlier configuration, while offers made then are open. */
  replaces(earlier: ExtensionEchoes, offerTtlSecs: number): void {
    if (earlier.#earlier && this.#parts.clock() >= earlier.#earlier.untilMs) earlier.#earlier = undefined;
    this.#earlier = { echoes: earlier, untilMs: this.#parts.clock() + offerTtlSecs * 1000 };
  }

  /**
   * Checks that a payment repeats the declared extensions unchanged or with additions, or omits them, because a facilitator
   * lists the job by the payment's extensions.
   * @throws GatewayError `payment_mismatch`
   */
  check(payload: Payload, job: JobKey): void {
    const changed = this.#changedExtension(payload, job);
    if (changed === undefined) return;
    throw new GatewayError(
      "payment_mismatch",
      `The payment changes what the 402 declared for the extension ${changed}: send its info back as it is. Nothing was charged.`,
      { details: { reason: "extension_echo_mismatch", extension: changed } },
    );
  }

  #changedExtension(payload: Payload, job: JobKey): string | undefined {
    const echoed = payload.extensions ?? {};
    // Another facilitator may have been queried since the 402, so all extensions that a facilitator might list are treated
    // as declared.
    const ofMethods = [...this.#parts.methods].map(({ extensions }) => extensions);
    const declared = Object.assign(
      {},
      this.#parts.descriptions.of(job).extensions,
      ...ofMethods,
    ) as JobDescription["extensions"];
    const changed = Object.entries(declared).find(([name, extension]) =>
      contradicts(infoOf(extension), infoOf(echoed[name])),
    )?.[0];
    const earlier = this.#earlier;
    if (changed === undefined || earlier === undefined || this.#parts.clock() >= earlier.untilMs)
      return changed;
    return earlier.echoes.#changedExtension(payload, job);
  }
}

function infoOf(extension: unknown): unknown {
  return isObject(extension) ? extension.info : undefined;
}

/** Compares only the fields that both have, because a client may omit fields and add others. */
function contradicts(declared: unknown, echoed: unknown): boolean {
  if (echoed === undefined) return false;
  if (!isObject(declared) || !isObject(echoed)) return !isDeepStrictEqual(declared, echoed);
  return Object.entries(declared).some(
    ([key, value]) => Object.hasOwn(echoed, key) && contradicts(value, echoed[key]),
  );
}
