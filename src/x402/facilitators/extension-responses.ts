import type { Logger } from "pino";
import * as z from "zod";
import { boundedCache } from "../../core/bounded-cache.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { parseJson } from "../../core/objects.ts";

/** A facilitator's verdict on the extensions of a payment, as its header `EXTENSION-RESPONSES` has it: JSON in base64. */
export interface ExtensionResponses {
  /** The header, for the client. */
  readonly header: string;
  readonly rejected: readonly { readonly extension: string; readonly reason: string }[];
}

/** Longest header that is passed on. */
const MAX_LENGTH = 4_096;
/** Longest text of the facilitator's in a log. */
const MAX_LOGGED = 200;

/** Bound on the reasons remembered as logged. */
const MAX_REMEMBERED = 1_000;

const responses = z.record(
  z.string(),
  z.looseObject({ status: z.string().optional(), rejectedReason: z.string().optional() }),
);

/** Returns undefined for a header that is absent, too long or malformed: it is only information. */
export function readExtensionResponses(
  header: string | string[] | undefined,
): ExtensionResponses | undefined {
  if (typeof header !== "string" || header.length > MAX_LENGTH || !/^[\w+/-]+={0,2}$/.test(header)) {
    return undefined;
  }
  const parsed = responses.safeParse(parseJson(Buffer.from(header, "base64").toString()));
  if (!parsed.success) return undefined;
  const rejected = Object.entries(parsed.data).flatMap(([extension, { status, rejectedReason }]) =>
    status === "rejected"
      ? {
          extension: extension.slice(0, MAX_LOGGED),
          reason: rejectedReason?.slice(0, MAX_LOGGED) ?? "no reason given",
        }
      : [],
  );
  return { header, rejected };
}

/** Logs which extensions of its payments the facilitator rejected. */
export class ExtensionRejections {
  readonly #logger: Logger;
  readonly #logged = boundedCache<string, true>(MAX_REMEMBERED);

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Logs each reason once for each job: it stays the same until the job's description changes. */
  log({ serviceId, jobIndex }: JobKey, { rejected }: ExtensionResponses): void {
    for (const { extension, reason } of rejected) {
      const job = jobKeyText(serviceId, jobIndex);
      const key = `${job} ${extension} ${reason}`;
      if (this.#logged.has(key)) continue;
      this.#logged.set(key, true);
      this.#logger.warn({ job, extension, reason }, "the facilitator rejected an extension of a payment");
    }
  }
}
