import { routeText } from "../../core/route.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { asSentence, jobTitle, listedPriceText, optionText, type Seller } from "../../x402/jobs/seller.ts";

/** Jobs that are named one by one, which keeps the text under 200 lines. */
const MAX_NAMED = 100;
/** Longest description of one job. */
const MAX_DESCRIPTION = 200;

/** Renders `GET /llms.txt`: Markdown for agents (llmstxt.org). */
export function* llmsText(
  jobs: readonly ListedJob[],
  { publicUrl, serviceName, promises, features }: Seller,
): Iterable<string> {
  yield `# ${serviceName}

> Sells runs of ${jobs.length === 1 ? "1 job" : `${jobs.length} jobs`} over x402: pay per request with a stablecoin, without an account or an API key.

## How to buy

1. \`POST\` the input to the job's URL, or request a URL with a method beside it by that method. The answer is 402, with offers in the header \`PAYMENT-REQUIRED\` (JSON in base64).
2. Sign one offer, and send the same request with the header \`PAYMENT-SIGNATURE\`. An x402 client does both, for example
   \`@x402/fetch\` for JavaScript or \`x402\` for Python.
3. The answer is 202 with \`call_id\`, \`access_token\` and \`links\`. \`GET\` \`links.result\` with \`Authorization: Bearer <access_token>\`
   until it is 200. Or send \`Prefer: wait=30\` with the payment: then the answer is the result itself if it is there in time.

${features.map(({ guide }) => `${guide}\n\n`).join("")}Keep the payment when an answer is lost, and send the very same request again: it is charged once. A refusal has \`error\`,
\`code\`, \`charged\` and \`retryable\`. Only the 402 is binding; prices here may be a minute old.

## Reference

- [Jobs](${publicUrl}/x402/jobs): every job with its input schema, example and price, as JSON
- [OpenAPI](${publicUrl}/openapi.json): one operation for each job

## Jobs

`;
  for (const job of jobs.slice(0, MAX_NAMED)) yield `${line(job, { publicUrl, promises })}\n`;
  if (jobs.length > MAX_NAMED) {
    yield `\n${jobs.length - MAX_NAMED} more jobs are in [the list](${publicUrl}/x402/jobs).\n`;
  }
}

function line(job: ListedJob, { publicUrl, promises }: Pick<Seller, "publicUrl" | "promises">): string {
  const {
    description,
    price,
    offers,
    input,
    access,
    onFailure = "",
    storeAnswers,
    url,
    route,
    serviceId,
    jobIndex,
  } = job;
  const facts = [
    ...(route === undefined ? [] : [`\`${routeText(route)}\`.`]),
    ...(description === undefined ? [] : [asSentence(oneLine(description))]),
    price === undefined
      ? `Its price is at ${publicUrl}/x402/jobs/${serviceId}/${jobIndex}/price.`
      : `Price: ${[listedPriceText(price), ...offers.map(optionText)].join(", ")}.`,
    ...(input === undefined ? [] : [`Input: ${input.contentType}.`]),
    ...[promises.get(onFailure) ?? []].flat(),
    ...(storeAnswers === false ? ["Its answer is forgotten once you have it: keep it."] : []),
    ...(access === undefined ? [] : [access.note]),
  ];
  return `- [${oneLine(jobTitle(job))}](${url}): ${facts.join(" ")}`;
}

/** Returns a text as one line of Markdown that shows it as it is. */
function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  const shown = line.length <= MAX_DESCRIPTION ? line : `${line.slice(0, MAX_DESCRIPTION - 1)}…`;
  return shown.replaceAll(/[\\`*_<[\]]/g, "\\$&");
}
