import type { Job } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { defined } from "../../core/objects.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { Methods } from "../methods/methods.ts";
import { accessTo, type Terms } from "../purchase/terms.ts";
import { chargeKindOf, type JobDescription, type Offer } from "../wire/offer.ts";
import { asSentence, chargeTexts, headersOf, jobTitle, LABEL, type Seller } from "./seller.ts";

/** Bound on the cached descriptions, which have a few KB each. */
const MAX_REMEMBERED = 1_000;
/** Longest description of a job in a header. */
const MAX_DESCRIPTION = 300;
const MAX_TAGS = 5;

/** Declares extensions of x402 for a job. @param headers names of the headers that buyers send */
export type DeclareExtensions = (job: Job, headers: readonly string[]) => JobDescription["extensions"];

interface Parts {
  readonly jobs: readonly Job[];
  readonly seller: Seller;
  readonly methods: Methods;
  /** The extensions that each job's 402 declares, in the order in which the 402 shows them. */
  readonly declares: readonly DeclareExtensions[];
  readonly facilitators: Pick<Facilitators, "extensionsOf">;
  readonly terms: readonly Terms[];
}

/** Jobs as their 402s describe them, at one configuration. */
export class JobDescriptions {
  readonly #parts: Parts;
  readonly #jobs: ReadonlyMap<string, Job>;
  readonly #made = boundedCache<string, JobDescription>(MAX_REMEMBERED);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#jobs = new Map(parts.jobs.map((job) => [jobKeyText(job.serviceId, job.jobIndex), job]));
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
   * Returns the description for a 402 with these offers, which may need further extensions. The offers may come from an
   * earlier configuration. The description states when the offers are charged, and what they promise.
   */
  withOffers(job: JobKey, offers: readonly Offer[]): JobDescription {
    const { resource, extensions } = this.of(job);
    const { onFailure } = offers.find((offer) => offer.onFailure && offer.chargesBack === undefined) ?? {};
    const charge = offers.length === 0 ? ["before"] : offers.map(chargeKindOf);
    const late = chargeTexts(defined({ charge, onFailure }), this.#parts.seller.promises);
    const { terms } = this.#parts;
    const notes = [accessTo(job, terms)?.note, ...terms.map((one) => one.requires?.(job)?.note)];
    const texts = [...late, ...notes.filter((note) => note !== undefined)];
    const description = withTexts(resource.description ?? "", texts);
    return {
      resource: { ...resource, description },
      extensions: { ...extensions, ...this.#listed(offers) },
    };
  }

  /** Returns the extensions that the offers' methods support and that a facilitator lists for a network of the offers. */
  #listed(offers: readonly Offer[]): JobDescription["extensions"] {
    const { methods, facilitators } = this.#parts;
    return Object.fromEntries(
      [...methods].flatMap(({ name, extensions }) => {
        const own = offers.filter(({ token }) => token.transferMethod === name);
        const listed = new Set(own.flatMap(({ token }) => facilitators.extensionsOf(token.network)));
        return Object.entries(extensions).filter(([extension]) => listed.has(extension));
      }),
    );
  }

  #describe(job: Job): JobDescription {
    const { urls, serviceName, logo } = this.#parts.seller;
    const range = typeof job.price === "object" && "from" in job.price ? job.price : undefined;
    const headers = headersOf({ range, access: accessTo(job, this.#parts.terms) }).map(([name]) => name);
    return {
      resource: {
        url: urls.of(job),
        description: shortened(job.description ?? jobTitle(job), MAX_DESCRIPTION),
        // If the buyer does not wait for the result, the answer is the JSON of the 202.
        mimeType: job.output?.contentType ?? "application/json",
        serviceName,
        ...(logo !== undefined && { iconUrl: logo }),
        tags: (job.tags ?? []).filter((tag) => LABEL.test(tag)).slice(0, MAX_TAGS),
        ...(job.maxResultBytes !== undefined && { maxResultBytes: job.maxResultBytes }),
        ...(job.storeAnswers === false && { storeAnswers: false }),
      },
      extensions: Object.assign({}, ...this.#parts.declares.map((declare) => declare(job, headers))),
    };
  }
}

function withTexts(text: string, added: readonly string[]): string {
  if (added.length === 0) return text;
  const end = added.join(" ");
  return `${asSentence(shortened(text, MAX_DESCRIPTION - end.length - 2))} ${end}`;
}

function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).trimEnd()}…`;
}
