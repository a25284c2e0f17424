import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Config, WebhookEndpoint } from "../../config/config.ts";
import { amountText, priceText } from "../../core/amounts.ts";
import type { CounterReader } from "../../core/instruments.ts";
import type { JobKey } from "../../core/job-call.ts";
import { isPartial } from "../../core/payment.ts";
import { jobLabel } from "../../core/route.ts";
import type { EndpointSchema } from "../../gen/jobgate/v1/operator_pb.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { chargeKindOf } from "../../x402/wire/offer.ts";
import type { JobMeasures } from "./job-measures.ts";

type Refusals = ReadonlyMap<string, number>;

/** Error code of a request without a payment, which is answered with an offer. */
const OFFER = "payment_required";

/** Returns the paid jobs and the webhook endpoints with what this process counted for each. */
export function toEndpoints(
  jobs: readonly ListedJob[],
  { serviceId, webhooks }: Config,
  counters: CounterReader,
  measured: (job: JobKey) => JobMeasures,
): MessageInitShape<typeof EndpointSchema>[] {
  const accepted = new Map<string, number>();
  const refusals = new Map<string, Map<string, number>>();
  const refuse = (endpoint: string, code: string, count: number) => {
    const codes = refusals.get(endpoint) ?? new Map<string, number>();
    refusals.set(endpoint, codes.set(code, (codes.get(code) ?? 0) + count));
  };
  for (const { labels, value } of counters("jobgate_jobcalls_accepted_total"))
    if (labels.origin === "x402") accepted.set(`${labels.service_id}/${labels.job_id}`, value);
  for (const { labels, value } of counters("jobgate_job_refusals_total"))
    refuse(`${labels.service_id}/${labels.job_id}`, labels.error, value);
  for (const { labels, value } of counters("jobgate_http_requests_total")) {
    const { listener, route, code, error } = labels;
    if (listener !== "webhooks") continue;
    if (error !== "") refuse(route, error, value);
    else if (code === "202") accepted.set(route, (accepted.get(route) ?? 0) + value);
  }
  const countsOf = (endpoint: string) => toCounts(accepted.get(endpoint), refusals.get(endpoint));
  return [
    ...jobs.map((job) => ({
      ...toPaidJob(job),
      ...countsOf(`${job.serviceId}/${job.jobIndex}`),
      ...measured(job),
    })),
    ...(webhooks?.endpoints ?? []).map((endpoint) => ({
      ...toWebhook(endpoint),
      serviceId,
      ...countsOf(endpoint.path),
    })),
  ];
}

function toPaidJob({ serviceId, jobIndex, description = "", price, ...job }: ListedJob) {
  const unit = price?.currency === "USD" ? "usd" : "wei";
  return {
    origin: "x402",
    path: job.url,
    serviceId,
    jobId: BigInt(jobIndex),
    name: jobLabel(job) ?? "",
    description,
    price: price === undefined ? "" : priceText({ unit, amount: price.priceWei }),
    amounts: job.offers.map(({ amount, token, decimals, ...offer }) => {
      const text = amountText(amount, token.symbol, decimals);
      return isPartial(chargeKindOf(offer)) ? `up to ${text}` : text;
    }),
    auth: job.access?.mode ?? "",
  };
}

function toWebhook({ path, jobId, name = "", auth }: WebhookEndpoint) {
  return { origin: "webhook", path, jobId, name, auth: auth.mode };
}

function toCounts(accepted = 0, codes: Refusals = new Map()) {
  const refusals = [...codes].filter(([code]) => code !== OFFER).sort(([, left], [, right]) => right - left);
  return {
    accepted: BigInt(accepted),
    offers: BigInt(codes.get(OFFER) ?? 0),
    refusals: refusals.map(([code, count]) => ({ code, count: BigInt(count) })),
  };
}
