/** What one instrument is, in the words of Prometheus. */
interface Instrument {
  readonly help: string;
  readonly labels: readonly string[];
}

interface HistogramInstrument extends Instrument {
  /** Upper bounds, in the unit of the name. */
  readonly buckets: readonly number[];
}

/** Of what happens inside this machine: 50 µs to 5 s. */
const LOCAL_SECONDS = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5];
/** Of what other servers are asked: 2.5 ms to 30 s. */
const REMOTE_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Everything that jobgate counts as it happens. Names and units as Prometheus wants them. */
export const COUNTERS = {
  jobgate_http_requests_total: {
    help: "HTTP requests answered, by route pattern, status and, where one was refused, its error code.",
    labels: ["listener", "route", "method", "code", "error"],
  },
  jobgate_payments_total: {
    help: "Payments decided by this process: settled, failed or unresolved.",
    labels: ["state", "network", "symbol"],
  },
  jobgate_payment_amount_total: {
    help: "Token units of the payments that this process settled; a float, so exact only up to 2^53.",
    labels: ["network", "symbol", "asset"],
  },
  jobgate_deliveries_total: {
    help: "JobCalls dealt to runners by this process, the first time or again.",
    labels: ["attempt"],
  },
  jobgate_jobcalls_acked_total: { help: "JobCalls that runners finished.", labels: [] },
  jobgate_jobcalls_retried_total: {
    help: "JobCalls put back in the queue: by a runner, by the operator, or because a stream ended.",
    labels: [],
  },
  jobgate_jobcalls_dead_lettered_total: { help: "JobCalls that became dead letters.", labels: [] },
  jobgate_jobcalls_dropped_total: { help: "Dead letters that the operator gave up.", labels: [] },
  jobgate_leases_expired_total: {
    help: "Leases given out by this process that ran out before a runner finished the JobCall.",
    labels: [],
  },
} as const satisfies Record<string, Instrument>;

/** Everything that jobgate measures as it happens. */
export const HISTOGRAMS = {
  jobgate_http_request_duration_seconds: {
    help: "From an HTTP request's headers to the end of its answer.",
    labels: ["listener", "route"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  },
  jobgate_facilitator_request_duration_seconds: {
    help: "What the facilitator was asked, verify or settle, and what came of it.",
    labels: ["operation", "outcome"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_chain_rpc_duration_seconds: {
    help: "Calls of a chain's RPC, for callers' permissions or evidence of settlements.",
    labels: ["purpose", "method", "outcome"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_pricing_engine_call_duration_seconds: {
    help: "Calls of the pricing engine, jobgate's own and those passed on, by gRPC status.",
    labels: ["method", "code"],
    buckets: REMOTE_SECONDS,
  },
  jobgate_store_commit_duration_seconds: {
    help: "Making one batch of operations durable; one commit serves all that came while the last was under way.",
    labels: ["outcome"],
    buckets: LOCAL_SECONDS,
  },
  jobgate_store_commit_operations: {
    help: "Operations in one committed batch.",
    labels: [],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096],
  },
  jobgate_first_delivery_delay_seconds: {
    help: "From accepting a JobCall to dealing it to a runner for the first time.",
    labels: [],
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600],
  },
  jobgate_event_loop_delay_seconds: {
    help: "How much later than asked for a timer fires: what every request waits besides.",
    labels: [],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
  },
} as const satisfies Record<string, HistogramInstrument>;

type LabelValues<Names extends readonly string[]> = { readonly [Name in Names[number]]: string };

export type CounterName = keyof typeof COUNTERS;
export type HistogramName = keyof typeof HISTOGRAMS;
export type CounterLabels<Name extends CounterName> = LabelValues<(typeof COUNTERS)[Name]["labels"]>;
export type HistogramLabels<Name extends HistogramName> = LabelValues<(typeof HISTOGRAMS)[Name]["labels"]>;
