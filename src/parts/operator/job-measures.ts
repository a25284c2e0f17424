import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { BucketCounts, CounterReader, HistogramReader } from "../../core/instruments.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { EndpointSchema } from "../../gen/jobgate/v1/operator_pb.ts";

/** Outcomes of the calls of a job, and durations of the calls and the answers. */
export type JobMeasures = Pick<
  MessageInitShape<typeof EndpointSchema>,
  "apiCalls" | "apiTimes" | "answerTimes" | "access"
>;

interface Measured {
  readonly outcomes: Map<string, number>;
  api: BucketCounts;
  answers: BucketCounts;
  /**
   * Number of requests by the kind of access and the name of the client. A space joins the two, because a kind has
   * none.
   */
  readonly access: Map<string, number>;
}

/** Sums the metrics that have labels for jobs, by job. */
export function jobMeasures(
  histograms: HistogramReader,
  counters: CounterReader,
): (job: JobKey) => JobMeasures {
  const jobs = new Map<string, Measured>();
  const of = (labels: { readonly service_id: string; readonly job_id: string }) => {
    const key = `${labels.service_id}/${labels.job_id}`;
    const measured = jobs.get(key) ?? { ...NOTHING, outcomes: new Map(), access: new Map() };
    jobs.set(key, measured);
    return measured;
  };
  for (const { labels, counts } of histograms("jobgate_api_call_duration_seconds")) {
    const measured = of(labels);
    const outcome = labels.outcome.replace(/^([1-5])[0-9][0-9]$/, "$1xx");
    measured.outcomes.set(outcome, (measured.outcomes.get(outcome) ?? 0) + sum(counts));
    measured.api = added(measured.api, counts);
  }
  for (const { labels, counts } of histograms("jobgate_paid_answer_duration_seconds"))
    of(labels).answers = counts;
  for (const { labels, value } of counters("jobgate_api_access_requests_total")) {
    const { access } = of(labels);
    const who = `${labels.by} ${labels.name}`;
    access.set(who, (access.get(who) ?? 0) + value);
  }
  return ({ serviceId, jobIndex }) => {
    const { outcomes, api, answers, access } = jobs.get(jobKeyText(serviceId, jobIndex)) ?? NOTHING;
    const apiCalls = [...outcomes].map(([outcome, count]) => ({ outcome, count: BigInt(count) }));
    const known = [...access].map(([who, count]) => {
      const [by = "", name = ""] = who.split(" ");
      return { by, name, count: BigInt(count) };
    });
    return {
      apiCalls: apiCalls.sort((a, b) => (a.outcome < b.outcome ? -1 : 1)),
      access: known.sort((a, b) => (a.name < b.name ? -1 : 1)),
      ...(sum(api) > 0 && { apiTimes: times(api) }),
      ...(sum(answers) > 0 && { answerTimes: times(answers) }),
    };
  };
}

const NOTHING: Measured = { outcomes: new Map(), api: [], answers: [], access: new Map() };

function sum(counts: BucketCounts): number {
  return counts.reduce((total, { count }) => total + count, 0);
}

function added(some: BucketCounts, more: BucketCounts): BucketCounts {
  return more.map(({ upTo, count }, i) => ({ upTo, count: count + (some[i]?.count ?? 0) }));
}

function times(counts: BucketCounts) {
  const at = (share: number) => durationFromMs(Math.round(quantile(counts, share) * 1_000));
  return { p50: at(0.5), p95: at(0.95) };
}

/**
 * Estimates a quantile as Prometheus does: the values of a bucket lie evenly between its bounds, and values above the
 * last finite bound are treated as that bound.
 */
function quantile(counts: BucketCounts, share: number): number {
  const rank = share * sum(counts);
  let [below, from] = [0, 0];
  for (const { upTo, count } of counts) {
    if (!Number.isFinite(upTo)) break;
    if (below + count >= rank) return from + ((upTo - from) * (rank - below)) / count;
    below += count;
    from = upTo;
  }
  return from;
}
