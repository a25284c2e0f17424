import type { Logger } from "pino";
import { PRICE_DECIMALS, parseDollars } from "../../core/amounts.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { jobKeyText, OPERATOR_ORIGIN_METADATA } from "../../core/job-call.ts";
import { canCharge, NOT_MODIFIED } from "../../core/result-answer.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import { MAX_TIMER_MS } from "../../core/waiting.ts";
import type { Dispatcher } from "../../delivery/dispatcher.ts";
import { decodeJobCall } from "../../delivery/job-call-codec.ts";
import type { Host } from "../../part.ts";
import type { Charge, ClaimedCall, JobResult } from "../../store/contract/work-queue.ts";
import type { HttpOutcome } from "../outbound/http-answer.ts";
import {
  type Asked,
  type HttpProtocol,
  HttpRunner,
  leaseTermsOf,
  type RunOutcome,
} from "../outbound/http-runner.ts";
import { beginningOf, errorResult, outcomeUnknown, readApiOutcome } from "./api-answer.ts";
import { ApiLinks } from "./api-links.ts";
import { CLIENT_METADATA, requestOf } from "./api-request.ts";
import { ApiTelemetry } from "./api-telemetry.ts";
import { readCharge } from "./charge.ts";
import { type ApiConfig, type SoldJob, serverOf } from "./config.ts";
import { AnswerToBuyer, type PassedAnswers } from "./passed-answers.ts";
import type { UnchargedCalls } from "./uncharged-calls.ts";

/** An API under one configuration. */
export interface ApiSale {
  readonly api: ApiConfig;
  readonly jobs: readonly SoldJob[];
  readonly publicUrl: string;
}

/** Makes the runner that sends the calls of an API's jobs to the API. */
export function apiRunner(
  sale: ApiSale,
  { dispatcher, config, telemetry, logger }: Pick<Host, "dispatcher" | "config" | "telemetry" | "logger">,
  { uncharged, passed }: { readonly uncharged: UnchargedCalls; readonly passed: PassedAnswers },
): HttpRunner {
  const { name } = sale.api;
  const terms = leaseTermsOf(config.runner);
  return new HttpRunner({
    subscriber: `API ${name}`,
    server: serverOf(sale.api),
    jobIds: sale.jobs.map(({ jobIndex }) => BigInt(jobIndex)),
    reserves: true,
    countsStops: true,
    protocol: new ApiProtocol({ sale, dispatcher, uncharged, passed, telemetry, clock: systemClock, logger }),
    // The protocol decides whether a call is made again.
    terms: { ...terms, maxAttempts: Math.max(terms.maxAttempts, MAX_ATTEMPTS) },
    ...{ dispatcher, clock: systemClock, logger },
  });
}

/** Longest run of a job whose `max_run_secs` is not configured. */
const DEFAULT_RUN_SECS = 300;
/** Largest part of an uncharged answer that is kept. */
const UNCHARGED_BYTES = 65_536;
const NO_TIME = "There was no time left to call the API.";
const NOT_AT_ROUTE = "it was accepted for a runner, before an API did the job, and is not sent to the API";
const BEGUN =
  "it was accepted for a runner, which may have begun it, and is not sent to the API without leave";

/** Largest number of attempts for a call that may be repeated. */
const MAX_ATTEMPTS = 2;
const REPEATABLE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/** Metadata of conditional headers. An API can answer a request with such a header with 304. */
const CONDITIONS = ["X-HTTP-IF-NONE-MATCH", "X-HTTP-IF-MODIFIED-SINCE"];
const WHOLE: Charge = { basisPoints: 10_000 };

type Metadata = Readonly<Record<string, string>>;

/** Sends paid requests to an API, and stores its answers as results. */
export class ApiProtocol implements HttpProtocol {
  readonly #sale: ApiSale;
  readonly #jobs: ReadonlyMap<string, SoldJob>;
  readonly #dispatcher: Pick<Dispatcher, "maxResultBytes">;
  readonly #uncharged: UnchargedCalls;
  readonly #passed: PassedAnswers;
  readonly #calls: ApiTelemetry;
  readonly #clock: Clock;
  readonly #logger: Logger;

  constructor(parts: {
    readonly sale: ApiSale;
    readonly dispatcher: Pick<Dispatcher, "maxResultBytes">;
    readonly uncharged: UnchargedCalls;
    readonly passed: PassedAnswers;
    readonly telemetry: Pick<Telemetry, "observe">;
    /** Wall clock. */
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    const { sale, dispatcher, uncharged, passed, telemetry, clock, logger } = parts;
    this.#sale = sale;
    this.#dispatcher = dispatcher;
    this.#jobs = new Map(sale.jobs.map((job) => [jobKeyText(job.serviceId, job.jobIndex), job]));
    this.#uncharged = uncharged;
    this.#passed = passed;
    this.#calls = new ApiTelemetry(sale.api.name, telemetry, logger);
    this.#clock = clock;
    this.#logger = logger;
  }

  ask({ callId, attempt: all, forgiven, encoded, deferred, enqueuedAt }: ClaimedCall): Asked {
    // Attempts in which the API may have received the request.
    const attempt = all - forgiven;
    const { api, publicUrl } = this.#sale;
    const { body, metadata, serviceId, jobId } = decodeJobCall(encoded);
    const job = this.#jobs.get(jobKeyText(serviceId, Number(jobId)));
    if (job === undefined)
      return decided({ kind: "failed", reason: "its API does not do it", blame: "call" });
    if (!isAtRoute(metadata)) return decided({ kind: "failed", reason: NOT_AT_ROUTE, blame: "call" });
    const { stream, isIdempotent } = job.runner;
    // A call of the operator is not counted for a payer.
    const isCounted = !(OPERATOR_ORIGIN_METADATA in metadata) && (deferred || job.onFailure === "refund");
    const counted = (run: RunOutcome) => (isCounted ? this.#counted(run, metadata) : run);
    const isSafe = isIdempotent || REPEATABLE_METHODS.has(metadata["X-HTTP-METHOD"] ?? "");
    // Part of a stream may have reached its buyer.
    const isRepeatable = isSafe && stream === undefined;
    if (attempt > (isRepeatable ? MAX_ATTEMPTS : 1))
      return decided(
        isForRunner(metadata)
          ? { kind: "failed", reason: BEGUN, blame: "call" }
          : counted(done(outcomeUnknown(!deferred))),
      );
    // A call that is charged after it ran must end before its authorization expires.
    const runMs = Math.min((job.maxRunSecs ?? DEFAULT_RUN_SECS) * 1_000, MAX_TIMER_MS);
    const wholeMs = deferred ? Math.min(runMs, enqueuedAt + runMs - this.#clock()) : runMs;
    if (wholeMs <= 0) return decided(counted(done(errorResult("api_timeout", NO_TIME, !deferred))));
    const maxResultBytes = this.#dispatcher.maxResultBytes({ origin: "x402", serviceId, jobId });
    const end = this.#calls.begin(job, { callId, attempt, traceparent: metadata.traceparent });
    const message = requestOf({ callId, attempt, body, metadata }, { headers: api.headers, publicUrl });
    const keepsAll = (status: number) =>
      stream === undefined && (!deferred || canCharge(status) || status === NOT_MODIFIED);
    const sent = {
      ...{ maxResultBytes, keepsAll, links: new ApiLinks(api.url, publicUrl), target: message.target ?? "/" },
      mayRepeat: isRepeatable && attempt < MAX_ATTEMPTS,
      isCharged: !deferred,
    };
    const passing =
      stream &&
      new AnswerToBuyer(this.#passed, {
        ...{ callId, maxBytes: maxResultBytes, endsWithBuyer: stream.endsWithBuyer },
        beginningOf: (head) => beginningOf(head, sent),
      });
    return {
      kind: "request",
      isWritten: true,
      passing,
      message: {
        ...message,
        wholeMs,
        bodyLimit: (status) =>
          passing !== undefined
            ? Number.POSITIVE_INFINITY
            : keepsAll(status)
              ? maxResultBytes
              : Math.min(maxResultBytes, UNCHARGED_BYTES),
      },
      read: (ended) => {
        const outcome = passing?.marked(ended) ?? ended;
        const run = readApiOutcome(outcome, sent);
        end(outcome, run);
        return counted(this.#charged(run, outcome, metadata));
      },
    };
  }

  /** Adds the charge of an answer that names a charge, or that is a 304. */
  #charged(run: RunOutcome, outcome: HttpOutcome, metadata: Metadata): RunOutcome {
    if (run.kind !== "done" || outcome.kind !== "answered") return run;
    const status = run.result?.status;
    if ((metadata["X-X402-PAYMENT-SCHEME"] ?? "exact") === "exact") {
      const isAsked = status === NOT_MODIFIED && CONDITIONS.some((name) => metadata[name] !== undefined);
      return isAsked ? { ...run, charge: WHOLE } : run;
    }
    if (!canCharge(status)) return run;
    const ceiling = metadata["X-X402-PAYMENT-AMOUNT"] ?? "0";
    const price = parseDollars(metadata["X-X402-PRICE"] ?? "", PRICE_DECIMALS);
    const reading = readCharge(outcome.answer.headers, { ceiling, price });
    if ("charge" in reading) return { ...run, charge: reading.charge };
    this.#logger.error(
      { api: this.#sale.api.name, problem: reading.problem },
      "an API named a charge that cannot be made: nothing is charged",
    );
    return done(errorResult("invalid_charge", "The API named a charge that cannot be made.", false));
  }

  #counted(run: RunOutcome, metadata: Metadata): RunOutcome {
    if (run.kind === "done" && run.charge === undefined && !canCharge(run.result?.status))
      this.#uncharged.count(this.#sale.api.name, metadata["X-X402-PAYER"], metadata[CLIENT_METADATA]);
    return run;
  }
}

/** Reports whether a call was paid at a route. No header of a request can imitate the name of its payer. */
function isAtRoute(metadata: Metadata): boolean {
  return metadata["X-X402-PAYER"] !== undefined && metadata["X-HTTP-PATH"] !== undefined;
}

/** Reports whether a call was accepted for a runner. A call for an API has the address of its client, or is the operator's. */
function isForRunner(metadata: Metadata): boolean {
  return metadata[CLIENT_METADATA] === undefined && !(OPERATOR_ORIGIN_METADATA in metadata);
}

function decided(outcome: RunOutcome): Asked {
  return { kind: "decided", outcome };
}

function done(result: JobResult): RunOutcome {
  return { kind: "done", result, charge: undefined };
}
