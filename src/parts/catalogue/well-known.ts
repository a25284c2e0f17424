import type { ListedJob } from "../../x402/jobs/listing.ts";
import { conditionsOf, headersOf, type Seller } from "../../x402/jobs/seller.ts";
import type { JobDescription } from "../../x402/wire/offer.ts";
import { offeredMethod, toRequirements } from "../../x402/wire/offer.ts";
import type { Bazaar } from "./bazaar.ts";
import { discoveryPrice } from "./openapi.ts";

/** Returns the description of a job that its 402 has. */
type DescribeJob = (job: ListedJob) => JobDescription;

/** Renders `GET /.well-known/x402`: the URL of every job. */
export function* resourceList(jobs: readonly ListedJob[]): Iterable<string> {
  yield '{"version":1,"resources":[';
  for (const [i, { url }] of jobs.entries()) yield `${i === 0 ? "" : ","}${JSON.stringify(url)}`;
  yield "]}";
}

/** Renders `GET /.well-known/x402.json`, a draft of x402: every job as its 402 describes it, with its current offers. */
export function* resourceItems(
  jobs: readonly ListedJob[],
  describe: DescribeJob,
  seller: Seller,
): Iterable<string> {
  yield `{"x402Version":2,"lastUpdated":"${new Date().toISOString()}","items":[`;
  for (const [i, job] of jobs.entries()) {
    const { resource, extensions } = describe(job);
    const { routeTemplate, info, schema } = extensions.bazaar as Bazaar;
    const { type, ...input } = info.input;
    const { pathParams, method } = schema.properties.input.properties;
    const headers = headersOf({ range: job.price?.range, access: job.access });
    const item = {
      resource,
      type,
      accepts: job.offers.map((offer) => {
        // Fields for one buyer are only in the 402.
        const { extra: _, ...requirements } = toRequirements(offer);
        const assetTransferMethod = offeredMethod(offer.token);
        return { ...requirements, ...(assetTransferMethod && { extra: { assetTransferMethod } }) };
      }),
      price: discoveryPrice(job),
      input: {
        ...input,
        ...(method.enum.length > 1 && { methods: method.enum }),
        ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
        routeTemplate,
        pathParams,
      },
      output: { mimeType: job.output?.contentType, example: info.output?.example },
      conditions: conditionsOf(job, seller),
      requires: [...(job.access ? [job.access.mode] : []), ...job.requirements.map(({ name }) => name)],
    };
    yield `${i === 0 ? "" : ","}${JSON.stringify(item)}`;
  }
  yield "]}";
}

/** Renders `GET /.well-known/agent-registration.json` (ERC-8004), for registries of agents. */
export function* agentRegistration(
  jobs: readonly ListedJob[],
  { title, guidance, logo, publicUrl, features }: Seller,
): Iterable<string> {
  const count = jobs.length === 1 ? "1 job" : `${jobs.length} jobs`;
  yield JSON.stringify({
    type: "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
    name: title,
    description: guidance ?? `Sells runs of ${count} over x402.`,
    image: logo ?? `${publicUrl}/favicon.svg`,
    services: [
      { name: "web", endpoint: `${publicUrl}/` },
      ...features.flatMap(({ service }) => service ?? []),
    ],
    x402Support: true,
    active: true,
    registrations: [],
    supportedTrust: [],
  });
}
