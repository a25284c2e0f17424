import type { Seller } from "../../x402/jobs/seller.ts";

/** Longest guide that crawlers accept with a description of an API. */
const MAX_LENGTH = 4_000;

/** Returns how an agent buys a job, as Markdown with headings. */
export function longGuide({ guidance, features }: Seller): string {
  return `${guidance === undefined ? "" : `${guidance.trim()}\n\n`}## How to buy

${steps(features.map(({ guide }) => guide))}
`;
}

/** Returns the guide for a field of another document, without the guides of features that would make it too long. */
export function shortGuide({ guidance, features }: Seller): string {
  const seller = guidance === undefined ? [] : [guidance.trim()];
  const whole = [...seller, steps(features.map(({ guide }) => guide))].join("\n\n");
  return whole.length <= MAX_LENGTH ? whole : [...seller, steps([])].join("\n\n");
}

function steps(guides: readonly string[]): string {
  return `1. \`POST\` the input to the job's URL, or request a URL with a method beside it by that method. The answer is 402, with offers in the header \`PAYMENT-REQUIRED\` (JSON in base64).
2. Sign one offer, and send the same request with the header \`PAYMENT-SIGNATURE\`. An x402 client does both, for example
   \`@x402/fetch\` for JavaScript or \`x402\` for Python.
3. The answer is 202 with \`call_id\`, \`access_token\` and \`links\`. \`GET\` \`links.result\` with \`Authorization: Bearer <access_token>\`
   until it is 200. Or send \`Prefer: wait=30\` with the payment: then the answer is the result itself if it is there in time.

${guides.map((guide) => `${guide}\n\n`).join("")}Keep the payment when an answer is lost, and send the same request again: it is charged once. A refusal has \`error\`,
\`code\`, \`charged\` and \`retryable\`. Only the 402 is binding; prices here may be a minute old.`;
}
