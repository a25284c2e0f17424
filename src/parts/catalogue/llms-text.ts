import { routeText } from "../../core/route.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import {
  asSentence,
  conditionsOf,
  jobTitle,
  listedPriceText,
  optionText,
  type Seller,
} from "../../x402/jobs/seller.ts";
import { longGuide } from "./guide.ts";

/** Jobs that are named one by one, which keeps the text under 200 lines. */
const MAX_NAMED = 100;
/** Longest description of one job. */
const MAX_DESCRIPTION = 200;

/** Renders `GET /llms.txt`: Markdown for agents (llmstxt.org). */
export function* llmsText(jobs: readonly ListedJob[], seller: Seller): Iterable<string> {
  const { publicUrl, title, promises } = seller;
  yield `# ${title}

> Sells runs of ${jobs.length === 1 ? "1 job" : `${jobs.length} jobs`} over x402: pay per request with a stablecoin, without an account or an API key.

${longGuide(seller)}
## Reference

- [Jobs](${publicUrl}/x402/jobs): every job with its input schema, example and price, as JSON
- [OpenAPI](${publicUrl}/openapi.json): one operation for each job
${contactLine(seller)}${termsLine(seller)}
## Jobs

`;
  for (const job of jobs.slice(0, MAX_NAMED)) yield `${line(job, { publicUrl, promises })}\n`;
  if (jobs.length > MAX_NAMED) {
    yield `\n${jobs.length - MAX_NAMED} more jobs are in [the list](${publicUrl}/x402/jobs).\n`;
  }
}

function contactLine({ contact }: Pick<Seller, "contact">): string {
  if (contact === undefined) return "";
  return `- [Contact](${contact.includes("://") ? contact : `mailto:${contact}`}): who sells the jobs\n`;
}

function termsLine({ termsOfService: terms }: Pick<Seller, "termsOfService">): string {
  return terms === undefined ? "" : `- [Terms of service](${terms}): what buyers agree to\n`;
}

function line(job: ListedJob, { publicUrl, promises }: Pick<Seller, "publicUrl" | "promises">): string {
  const { description, offers, input, url, route, serviceId, jobIndex } = job;
  const price = listedPriceText(job);
  const facts = [
    ...(route === undefined ? [] : [`\`${routeText(route)}\`.`]),
    ...(description === undefined ? [] : [asSentence(oneLine(description))]),
    price === undefined
      ? `Its price is at ${publicUrl}/x402/jobs/${serviceId}/${jobIndex}/price.`
      : `Price: ${[price, ...offers.map(optionText)].join(", ")}.`,
    ...(input === undefined ? [] : [`Input: ${input.contentType}.`]),
    ...conditionsOf(job, { promises }),
  ];
  return `- [${oneLine(jobTitle(job))}](${url}): ${facts.join(" ")}`;
}

/** Returns a text as one line of Markdown that shows it as it is. */
function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  const shown = line.length <= MAX_DESCRIPTION ? line : `${line.slice(0, MAX_DESCRIPTION - 1)}…`;
  return shown.replaceAll(/[\\`*_<[\]]/g, "\\$&");
}
