import { isDeepStrictEqual } from "node:util";
import type { PaymentPayload, PaymentPayloadV1 } from "@x402/core/types";
import type { Job } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { isObject } from "../../core/objects.ts";
import { declareGasSponsoring, GAS_SPONSORING } from "../wire/gas-sponsoring.ts";
import type { JobDescription, Offer } from "../wire/offer.ts";
import { jobUrl } from "../wire/paths.ts";
import type { IdentifierRule } from "../wire/payment-identifier.ts";
import { declareBazaar } from "./bazaar.ts";
import { asSentence, jobTitle, PROMISES, type Seller } from "./seller.ts";

/** Bound on the descriptions that are kept: a few KB each. */
const MAX_REMEMBERED = 1_000;
/** Longest description of a job in a header. */
const MAX_DESCRIPTION = 300;
const MAX_TAGS = 5;
/** A tag that x402 clients take: printable ASCII. */
const LABEL = /^[\x20-\x7e]{1,32}$/;

interface Parts {
  readonly jobs: readonly Job[];
  readonly seller: Seller;
  readonly identifiers: IdentifierRule;
  /** Extensions that the facilitator of a CAIP-2 network lists. */
  readonly extensionsOf: (network: string) => readonly string[];
  readonly clock: Clock;
}

/** Jobs as their 402s describe them, at one configuration. Declares the extensions. */
export class JobDescriptions {
  readonly #parts: Parts;
  readonly #jobs: ReadonlyMap<string, Job>;
  /** Descriptions of the previous configuration, while offers made under it are open. */
  #earlier: { readonly descriptions: JobDescriptions; readonly untilMs: number } | undefined;
  readonly #made = boundedCache<string, JobDescription>(MAX_REMEMBERED);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#jobs = new Map(parts.jobs.map((job) => [jobKeyText(job.serviceId, job.jobIndex), job]));
  }

  /** Accepts payments that send back the extensions of these descriptions, while offers made then are open. */
  replaces(earlier: JobDescriptions, offerTtlSecs: number): void {
    if (earlier.#earlier && this.#parts.clock() >= earlier.#earlier.untilMs) earlier.#earlier = undefined;
    this.#earlier = { descriptions: earlier, untilMs: this.#parts.clock() + offerTtlSecs * 1000 };
  }

  of({ serviceId, jobIndex }: JobKey): JobDescription {
    const key = jobKeyText(serviceId, jobIndex);
    let description = this.#made.get(key);
    if (description === undefined) {
      description = this.#describe(this.#jobs.get(key) ?? { serviceId, jobIndex });
      this.#made.set(key, description);
    }
    return description;
  }

  /**
   * Returns the description for a 402 with these offers, which may need more extensions. It makes the promise of the
   * offers, which may be of an earlier configuration.
   */
  withOffers(job: JobKey, offers: readonly Offer[]): JobDescription {
    const { resource, extensions, ...rest } = this.of(job);
    const sponsoring = declareGasSponsoring(offers, this.#parts.extensionsOf);
    const description = withPromise(
      resource.description ?? "",
      offers.find(({ onFailure }) => onFailure)?.onFailure,
    );
    return { ...rest, resource: { ...resource, description }, extensions: { ...extensions, ...sponsoring } };
  }

  /**
   * Checks that a payment sends declared extensions back as they are, with additions or not at all: a facilitator lists
   * the job by what the payment says.
   * @throws GatewayError `payment_mismatch`
   */
  checkEcho(payload: PaymentPayload | PaymentPayloadV1, job: JobKey): void {
    const changed = this.#changedExtension(payload, job);
    if (changed === undefined) return;
    throw new GatewayError(
      "payment_mismatch",
      `The payment changes what the 402 declared for the extension ${changed}: send its info back as it is. Nothing was charged.`,
      { details: { reason: "extension_echo_mismatch", extension: changed } },
    );
  }

  #changedExtension(payload: PaymentPayload | PaymentPayloadV1, job: JobKey): string | undefined {
    const echoed = "extensions" in payload ? (payload.extensions ?? {}) : {};
    // Another facilitator may have been asked since the 402, so gas sponsoring counts as declared.
    const declared = { ...this.of(job).extensions, ...GAS_SPONSORING };
    const changed = Object.entries(declared).find(([name, extension]) =>
      contradicts(infoOf(extension), infoOf(echoed[name])),
    )?.[0];
    const earlier = this.#earlier;
    if (changed === undefined || earlier === undefined || this.#parts.clock() >= earlier.untilMs)
      return changed;
    return earlier.descriptions.#changedExtension(payload, job);
  }

  #describe(job: Job): JobDescription {
    const { publicUrl, serviceName } = this.#parts.seller;
    const bazaar = declareBazaar(job);
    const { input, output } = bazaar.info;
    return {
      resource: {
        url: jobUrl(publicUrl, job),
        description: shortened(job.description ?? jobTitle(job), MAX_DESCRIPTION),
        // Without a wait for the result, the answer is the 202's JSON.
        mimeType: job.output?.contentType ?? "application/json",
        serviceName,
        tags: (job.tags ?? []).filter((tag) => LABEL.test(tag)).slice(0, MAX_TAGS),
      },
      extensions: { bazaar, ...this.#parts.identifiers.declaration(job) },
      outputSchema: { input: { discoverable: true, ...input }, ...(output && { output }) },
    };
  }
}

function withPromise(text: string, onFailure: Offer["onFailure"]): string {
  if (onFailure === undefined) return text;
  const promise = ` ${PROMISES[onFailure]}`;
  return asSentence(shortened(text, MAX_DESCRIPTION - promise.length - 1)) + promise;
}

function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).trimEnd()}…`;
}

function infoOf(extension: unknown): unknown {
  return isObject(extension) ? extension.info : undefined;
}

/** Compares what both have: a client may leave out a part, and add others. */
function contradicts(declared: unknown, echoed: unknown): boolean {
  if (echoed === undefined) return false;
  if (!isObject(declared) || !isObject(echoed)) return !isDeepStrictEqual(declared, echoed);
  return Object.entries(declared).some(
    ([key, value]) => Object.hasOwn(echoed, key) && contradicts(value, echoed[key]),
  );
}
