import { pathSchema, querySchema } from "../../core/parameters.ts";
import { routeText } from "../../core/route.ts";
import { priceFields, settlementOption } from "../prices/price-route.ts";
import { inputExample, inputSchema } from "./job-input.ts";
import type { ListedJob } from "./listing.ts";
import type { Seller } from "./seller.ts";

/** Returns all that is known about a job, as the lists of jobs and the page that sells it show it. */
export function jobEntry(job: ListedJob, { urls, features }: Seller) {
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
    input: (input ?? parameters) && {
      content_type: input?.contentType,
      schema: input && inputSchema(input),
      example: input && inputExample(input),
      path: route && parameters && pathSchema(route, parameters),
      query: route && parameters && querySchema(route, parameters),
    },
    output: output && { content_type: output.contentType },
    max_run_secs: maxRunSecs,
    max_result_bytes: maxResultBytes,
    store_answers: storeAnswers,
    on_failure: onFailure,
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
