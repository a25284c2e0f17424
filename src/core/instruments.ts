/** A metric's description in the terms of Prometheus. */
export interface Instrument {
  readonly help: string;
  readonly labels: readonly string[];
}

export interface HistogramInstrument extends Instrument {
  /** Upper bounds, in the unit that ends the metric's name. */
  readonly buckets: readonly number[];
}

/** Buckets for work inside this machine: 50 µs to 5 s. */
const LOCAL_SECONDS = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5];
/** Buckets for requests to other servers: 2.5 ms to 30 s. */
const REMOTE_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Counters that jobgate's parts report to. Names and units follow the conventions of Prometheus. */
export const COUNTERS = {
  jobgate_http_requests_total: {
    help: "HTTP requests answered, by route pattern, status and the error code of a refusal.",
    labels: ["listener", "route", "method", "code", "error"],
  },
  jobgate_payments_total: {
    help: "Payments decided by this process: settled, failed or unresolved.",
    labels: ["state", "network", "symbol"],
  },
  jobgate_payments_contradicted_total: {
    help: "Payments whose record the chain contradicts: paid but recorded as failed or released; or unpaid but closed as paid (recorded: settled).",
    labels: ["recorded", "network", "symbol"],
  },
  jobgate_charges_lost_total: {
    help: "Jobs charged after they ran that were done and could not be charged.",
    labels: ["network", "symbol"],
  },
  jobgate_charges_altered_total: {
    help: "Charges of deferred payments whose facilitator moved another amount.",
    labels: ["network", "symbol"],
  },
  jobgate_payment_amount_total: {
    help: "Token units of the payments that this process settled; exact up to 2^53, because it is a float.",
    labels: ["network", "symbol", "asset"],
  },
  jobgate_settler_replaced_total: {
    help: "Settlements by the local facilitator that waited to be mined and were sent again at a higher fee.",
    labels: ["network"],
  },
  jobgate_facilitator_service_settlements_total: {
    help: "Settlements that other sellers asked for, by the name of their token and the outcome.",
    labels: ["seller", "outcome"],
  },
  jobgate_deliveries_total: {
    help: "JobCalls delivered to runners by this process, for the first time or again.",
    labels: ["attempt"],
  },
  jobgate_job_refusals_total: {
    help: "Requests for a paid job that were refused, by error code; payment_required: they were shown its price.",
    labels: ["service_id", "job_id", "error"],
  },
  jobgate_refused_payments_lost_total: {
    help: "Refused payments that are only in the log, because too many waited to be written.",
    labels: [],
  },
  jobgate_jobcalls_accepted_total: {
    help: "JobCalls accepted by this process: from webhooks, or paid for.",
    labels: ["origin", "service_id", "job_id"],
  },
  jobgate_jobcalls_acked_total: { help: "JobCalls that runners acked.", labels: [] },
  jobgate_jobcalls_retried_total: {
    help: "JobCalls returned to the queue: by a runner, by the operator, or because a stream ended.",
    labels: [],
  },
  jobgate_jobcalls_dead_lettered_total: { help: "JobCalls that became dead letters.", labels: [] },
  jobgate_jobcalls_dropped_total: { help: "Dead letters that the operator dropped.", labels: [] },
  jobgate_api_free_requests_total: {
    help: "Requests passed through to an API without payment, by its status or the error code of a refusal.",
    labels: ["api", "code"],
  },
  jobgate_api_access_requests_total: {
    help: "Requests of known clients passed through to an API without payment, by the name of their key or account, and its status or the error code of a refusal.",
    labels: ["api", "service_id", "job_id", "by", "name", "code"],
  },
  jobgate_leases_expired_total: {
    help: "Leases of this process that expired before a runner finished the JobCall.",
    labels: [],
  },
} as const satisfies Record<string, Instrument>;

/** Histograms that jobgate's parts report to. */
export const HISTOGRAMS = {
  jobgate_http_request_duration_seconds: {
    help: "Time from an HTTP request's headers to the end of its answer.",
    labels: ["listener", "route"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  },
  jobgate_facilitator_request_duration_seconds: {
    help: "Requests to the facilitator, by operation (verify or settle) and outcome.",
    labels: ["facilitator", "operation", "outcome"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_chain_rpc_duration_seconds: {
    help: "Calls to a chain's RPC, for permissions, for evidence of settlements, or to settle.",
    labels: ["purpose", "method", "outcome"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_api_call_duration_seconds: {
    help: "Duration of paid calls to an API, by the status of the answer; without an answer by how the call ended: timed_out, lost, unreached or invalid.",
    labels: ["api", "service_id", "job_id", "outcome"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_paid_answer_duration_seconds: {
    help: "Paid requests that waited for a result and got it, from the headers to the beginning of the answer. Resends are left out.",
    labels: ["service_id", "job_id"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_pricing_engine_call_duration_seconds: {
    help: "Calls to the pricing engine by gRPC status, whether jobgate makes or forwards them.",
    labels: ["method", "code"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_store_commit_duration_seconds: {
    help: "Time to make one batch durable; a batch holds the operations that arrived during the commit before it.",
    labels: ["outcome"],
    buckets: LOCAL_SECONDS,
  },
  jobgate_store_commit_operations: {
    help: "Operations in one committed batch.",
    labels: [],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096],
  },
  jobgate_first_delivery_delay_seconds: {
    help: "Time from accepting a JobCall to its first delivery to a runner.",
    labels: [],
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600],
  },
  jobgate_event_loop_delay_seconds: {
    help: "Lateness of a timer, by which every request is delayed in addition.",
    labels: [],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
  },
} as const satisfies Record<string, HistogramInstrument>;

/** Gauges that parts report to. They are read at each scrape. */
export const GAUGES = {
  jobgate_settler_balance: {
    help: "Native units that a settler account holds for gas, as last read.",
    labels: ["network", "address"],
  },
  jobgate_settler_unmined: {
    help: "Own settlements that are signed and wait to be mined. Only the replica that sends has it.",
    labels: ["network"],
  },
} as const satisfies Record<string, Instrument>;

type LabelValues<Names extends readonly string[]> = { readonly [Name in Names[number]]: string };

export type CounterName = keyof typeof COUNTERS;
export type HistogramName = keyof typeof HISTOGRAMS;
export type CounterLabels<Name extends CounterName> = LabelValues<(typeof COUNTERS)[Name]["labels"]>;
/** Reads all series of a counter. */
export type CounterReader = <Name extends CounterName>(
  name: Name,
) => readonly { readonly labels: CounterLabels<Name>; readonly value: number }[];
/** Reads all series of a histogram. */
export type HistogramReader = <Name extends HistogramName>(
  name: Name,
) => readonly { readonly labels: HistogramLabels<Name>; readonly counts: BucketCounts }[];
/**
 * Number of observations in each bucket, which are up to its upper bound and above the upper bound of the bucket before
 * it. The last bound is infinite.
 */
export type BucketCounts = readonly { readonly upTo: number; readonly count: number }[];
/** One value of a gauge. */
export type GaugeSample = {
  [Name in keyof typeof GAUGES]: {
    readonly gauge: Name;
    readonly labels: LabelValues<(typeof GAUGES)[Name]["labels"]>;
    readonly value: number;
  };
}[keyof typeof GAUGES];
export type HistogramLabels<Name extends HistogramName> = LabelValues<(typeof HISTOGRAMS)[Name]["labels"]>;
