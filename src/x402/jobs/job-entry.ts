import { pathSchema, querySchema } from "../../core/parameters.ts";
import { routeText } from "../../core/route.ts";
import { priceFields, settlementOption } from "../prices/price-route.ts";
import { bodyExample, jsonSchemaOf } from "./job-body.ts";
import type { ListedJob } from "./listing.ts";
import { conditionsOf, headersOf, type Seller } from "./seller.ts";

/** Returns all facts about a job, for the lists of jobs and the page that sells it. */
export function jobEntry(job: ListedJob, seller: Seller) {
  const { urls, features } = seller;
  const conditions = conditionsOf(job, seller);
  const headers = headersOf({ range: job.price?.range, access: job.access });
  const { serviceId, jobIndex, name, title, description, tags, mode, access } = job;
  const { input, output, maxRunSecs, maxResultBytes, storeAnswers, onFailure, route, parameters } = job;
  return {
    service_id: serviceId,
    job_index: jobIndex,
    name,
    title,
    description,
    tags,
    mode,
    auth_mode: access?.mode,
    headers: headers.length > 0 ? Object.fromEntries(headers) : undefined,
    input: (input ?? parameters) && {
      content_type: input?.contentType,
      schema: input && jsonSchemaOf(input),
      example: input && bodyExample(input),
      path: route && parameters && pathSchema(route, parameters),
      query: route && parameters && querySchema(route, parameters),
    },
    output: output && {
      content_type: output.contentType,
      schema: jsonSchemaOf(output),
      example: bodyExample(output),
    },
    max_run_secs: maxRunSecs,
    max_body_bytes: job.maxBodyBytes,
    max_result_bytes: maxResultBytes,
    store_answers: storeAnswers,
    on_failure: onFailure,
    charge: job.charge,
    conditions: conditions.length > 0 ? conditions : undefined,
    ...(job.price && priceFields(job.price)),
    settlement_options: job.offers.map((offer) => ({
      ...settlementOption(offer, urls),
      decimals: offer.decimals,
    })),
    route: route && routeText(route),
    x402_endpoint: job.url,
    ...Object.assign({}, ...features.map((feature) => feature.entryFields?.(job))),
  };
}
