import type { Logger } from "pino";
import { ERROR_KINDS, type ErrorCode, GatewayError, refusalOf } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { HttpRequest } from "../../http/request.ts";
import {
  errorResponse,
  type HttpResponse,
  jsonResponse,
  type StreamingResponse,
} from "../../http/response.ts";
import { ClientGone } from "../../http/uploads.ts";
import { type CallLookup, NOT_KEPT } from "../../store/contract/call-lookup.ts";
import type { AccessTokens } from "../calls/access-tokens.ts";
import { lateSettlement } from "../calls/call-answer.ts";
import type { LiveAnswers } from "../calls/live-answers.ts";
import { resultResponse } from "../calls/result-response.ts";
import type { SentResults } from "../calls/sent-results.ts";
import type { ResultWaits } from "../calls/wait-for-result.ts";
import { callFailed, resultNotKept, withheldBecause } from "../calls/withheld.ts";
import type { PaymentProtocol } from "../protocols/protocol.ts";
import type { AnswerExtensions } from "../wire/extensions.ts";
import { callPath } from "../wire/paths.ts";
import type { Checkout, UnpaidRequest } from "./checkout.ts";
import type { AcceptedPayment } from "./purchase.ts";
import type { Refusals } from "./refused-payments.ts";

type Answer = HttpResponse | StreamingResponse;

interface Parts {
  readonly protocol: PaymentProtocol;
  readonly checkout: Checkout;
  readonly waits: ResultWaits;
  readonly store: Pick<CallLookup, "readResult">;
  readonly tokens: AccessTokens;
  readonly extensions: AnswerExtensions;
  readonly sent: SentResults;
  readonly live: LiveAnswers | undefined;
  readonly publicUrl: string;
  /** Time for which paid requests wait for their results, for jobs that answer with results, by `jobKeyText`. */
  readonly waitSecs: ReadonlyMap<string, number>;
  readonly refusals: Pick<Refusals, "count" | "add">;
  readonly telemetry: Pick<Telemetry, "observe">;
  readonly logger: Logger;
}

/** Longest wait for the result of a job that is no longer sold, when its payment is sent again. */
const EARLIER_WAIT_SECS = 1;

/** Sells runs of jobs over one protocol, at their ids and at their routes. */
export class JobRoute {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Sells a run, or answers 402.
   * @param waitSecs time for which the answer waits for the job's result; undefined if it does not wait
   */
  answer(request: HttpRequest, job: JobKey, waitSecs = this.#waitSecsOf(job)): Promise<Answer> {
    const startedAt = performance.now();
    return this.refusing(request, job, async () => {
      const { checkout, protocol } = this.#parts;
      const sale = await checkout.buy(request, job, protocol);
      if (sale.kind === "unpaid") return this.#paymentRequired(request, sale.unpaid);
      return this.#accept(request, job, sale.payment, { waitSecs, startedAt });
    });
  }

  /**
   * Returns the 402 of a request that only explores. Never starts a job.
   * @param allow methods that buy the job
   */
  show(request: HttpRequest, job: JobKey, allow = "POST"): Promise<Answer> {
    return this.refusing(request, job, async () => {
      const { checkout, protocol } = this.#parts;
      if (protocol.carriesPayment(request)) throw buysOnlyWith(allow);
      return this.#paymentRequired(request, await checkout.show(request, job));
    });
  }

  /**
   * Answers, from the journal, an already known payment at a path where no job is sold now.
   * @throws GatewayError the refusal, for any other request
   */
  async answerEarlier(request: HttpRequest, refusal: GatewayError): Promise<Answer> {
    const { checkout, protocol } = this.#parts;
    const earlier = await checkout.findEarlier(request, protocol);
    if (earlier === undefined) return this.#answerBound(request, refusal);
    const { serviceId, jobIndex } = earlier;
    const job = { serviceId, jobIndex };
    return this.answer(request, job, this.#waitSecsOf(job) ?? EARLIER_WAIT_SECS);
  }

  /** Answers a payment that its method binds to its request. @throws GatewayError the refusal, for any other request */
  async #answerBound(request: HttpRequest, refusal: GatewayError): Promise<Answer> {
    const startedAt = performance.now();
    const { checkout, protocol } = this.#parts;
    const bought = await checkout.findBound(request, protocol);
    if (bought === undefined) throw refusal;
    const { job, payment } = bought;
    const waitSecs = this.#waitSecsOf(job) ?? EARLIER_WAIT_SECS;
    return this.refusing(request, job, () => this.#accept(request, job, payment, { waitSecs, startedAt }));
  }

  #waitSecsOf({ serviceId, jobIndex }: JobKey): number | undefined {
    return this.#parts.waitSecs.get(jobKeyText(serviceId, jobIndex));
  }

  /**
   * Returns the JSON fields of a refusal that no handler makes. The journal is not read during a shutdown, so a request
   * with a payment may be the resend of a payment that was charged.
   */
  refusalDetails(code: ErrorCode, request: HttpRequest | undefined): Readonly<Record<string, unknown>> {
    const mayBeCharged =
      code === "shutting_down" && request !== undefined && this.#parts.protocol.carriesPayment(request);
    return mayBeCharged ? { ...chargedNothing(code), charged: "unknown" } : chargedNothing(code);
  }

  /** Runs a handler, and turns its error into the refusal of a request for the job. */
  async refusing<Given>(
    request: HttpRequest,
    job: JobKey,
    answer: () => Promise<Given>,
  ): Promise<Given | HttpResponse> {
    try {
      return await answer();
    } catch (error) {
      if (error instanceof ClientGone) throw error;
      return this.#refuse(request, job, error);
    }
  }

  #paymentRequired(request: HttpRequest, unpaid: UnpaidRequest): HttpResponse | Promise<HttpResponse> {
    const { protocol, refusals } = this.#parts;
    refusals.count("payment_required", unpaid.job);
    return protocol.paymentRequired(request, unpaid);
  }

  /**
   * Answers a payment that bought the job. The answer is the job's result if the client or the job waits for the
   * result, and the result arrives or begins to arrive in time.
   * @throws GatewayError `settlement_failed`, `settlement_unknown`: the job is done, and its charge is not certain;
   * `call_failed`: the job failed, and is not charged; `result_not_kept`: the result was sent before
   */
  async #accept(
    request: HttpRequest,
    job: JobKey,
    payment: AcceptedPayment,
    { waitSecs: ofJob, startedAt }: { readonly waitSecs: number | undefined; readonly startedAt: number },
  ): Promise<Answer> {
    const { protocol, waits, tokens, extensions, sent, publicUrl } = this.#parts;
    const bought = (settlement = payment.settlement) => ({
      ...payment,
      settlement,
      accessToken: tokens.tokenOf(payment.payment),
      path: callPath(publicUrl, payment.callId),
      headers: protocol.acceptedHeaders(request, { ...payment, settlement }),
    });
    const preferred = preferredWaitSecs(request);
    const secs = preferred ?? ofJob;
    if (secs === undefined) return acceptedAnswer(bought(), job);
    const [isOfJob, isNew] = [ofJob !== undefined, payment.replayed !== true];
    const waited = await waits.waitFor(payment, secs, request.closed, {
      isOfJob,
      isNew,
      live: this.#parts.live,
    });
    switch (waited.kind) {
      case "begun":
      case "answered": {
        const { call } = waited;
        const live = waited.kind === "begun" ? waited.answer.bytes(request.closed) : undefined;
        const result = waited.kind === "begun" ? { ...waited.answer.head, size: 0 } : waited.result;
        const settled = bought(lateSettlement(call) ?? payment.settlement);
        if (result === NOT_KEPT) throw resultNotKept(call, settled.headers);
        const { path } = settled;
        // If the job answers with its result, `Location` is the runner's.
        const link = ofJob === undefined ? { location: path } : { link: `<${path}>; rel="status"` };
        const headers = { ...link, ...settled.headers, ...(await extensions.headersOf(call)) };
        // Conditions and ranges of a purchase are for the job. Only a resend applies them to the stored result.
        if (isNew) this.#measure(job, startedAt);
        const selecting = payment.replayed === true ? request : { headers: {} };
        return resultAnswer(selecting, { ...settled, headers }, preferred, {
          ...{ call, result, live, calls: this.#parts.store },
          onSent: sent.forgetting(call),
        });
      }
      case "not_in_time": {
        const { call } = waited;
        const withheld = call && withheldBecause(call);
        if (withheld !== undefined) throw withheld;
        // The job failed and its payment is released, so there will be neither a result nor a charge.
        if (call?.state === "failed" && call.charge?.state === "released") throw callFailed(call);
        return acceptedAnswer(bought(), job, preferred);
      }
      case "not_waited":
        return acceptedAnswer(bought(), job);
    }
  }

  #measure({ serviceId, jobIndex }: JobKey, startedAt: number): void {
    const labels = { service_id: String(serviceId), job_id: String(jobIndex) };
    const secs = (performance.now() - startedAt) / 1_000;
    this.#parts.telemetry.observe("jobgate_paid_answer_duration_seconds", labels, secs);
  }

  #refuse(request: HttpRequest, job: JobKey, error: unknown): HttpResponse | Promise<HttpResponse> {
    const { protocol, refusals, logger } = this.#parts;
    const refusal = purchaseRefusalOf(error);
    const fields = { request: request.id, job: jobKeyText(job.serviceId, job.jobIndex), code: refusal.code };
    if (refusal !== error) logger.error({ err: error, ...fields }, "request failed unexpectedly");
    // A request without a payment is only in the debug log.
    refusals.add(refusal, { request, job, protocol });
    return protocol.refuse(request, job, refusal);
  }
}

/** Refuses a payment by a method that only shows the offers. @param allow methods that buy the job */
export function buysOnlyWith(allow: string): GatewayError {
  return new GatewayError(
    "method_not_allowed",
    `A payment buys the job only with ${allow}. Nothing was charged.`,
    { headers: { allow } },
  );
}

/** An accepted payment with access to its call. */
interface BoughtCall extends Pick<AcceptedPayment, "callId" | "receipt" | "settlement" | "isReleased"> {
  /** Token that gives the buyer access to the call. */
  readonly accessToken: string;
  /** Path of the call's state. */
  readonly path: string;
  /** Headers with the settlement. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Returns the 202 of an accepted payment.
 * @param preferredSecs time that the client preferred to wait for the job's result; undefined if the client did not wait
 */
function acceptedAnswer(
  bought: BoughtCall,
  { serviceId, jobIndex }: JobKey,
  preferredSecs?: number,
): HttpResponse {
  const { callId, receipt, accessToken, path, settlement, isReleased } = bought;
  return jsonResponse(
    202,
    {
      status: "accepted",
      // A deferred payment has moved nothing yet, or never will.
      ...(settlement === undefined && { payment: isReleased ? "released" : "authorized" }),
      receipt,
      service_id: serviceId,
      job_index: jobIndex,
      call_id: callId,
      access_token: accessToken,
      links: { self: path, result: `${path}/result`, events: `${path}/events` },
    },
    { location: path, ...bought.headers, ...preferenceApplied(preferredSecs) },
  );
}

/**
 * Returns the answer of a payment whose job was answered while its request waited: the result itself. Its headers have the
 * fields of the 202's body, except the links. The body is empty if the runner gave no result.
 */
function resultAnswer(
  request: Pick<HttpRequest, "headers">,
  bought: BoughtCall,
  preferredSecs: number | undefined,
  answered: Pick<Parameters<typeof resultResponse>[1], "calls" | "call" | "result" | "live" | "onSent">,
): HttpResponse | StreamingResponse {
  const { callId, receipt, accessToken } = bought;
  const headers = {
    ...bought.headers,
    ...preferenceApplied(preferredSecs),
    "x-call-id": String(callId),
    "x-receipt": receipt,
    "x-access-token": accessToken,
  };
  return resultResponse(request, { ...answered, headers });
}

function preferenceApplied(secs: number | undefined): Record<string, string> {
  return secs === undefined ? {} : { "preference-applied": `wait=${secs}` };
}

/** Answers a refusal with a status other than 402. */
export function refusalResponse(refusal: GatewayError, { serviceId, jobIndex }: JobKey): HttpResponse {
  const { code, status, details } = refusal;
  return errorResponse(refusal, {
    ...chargedNothing(code),
    ...(status === 403 || status === 404 ? { service_id: serviceId, job_index: jobIndex } : {}),
    ...details,
  });
}

/** Returns the refusal that answers an error of a purchase. With any other error, money may have moved. */
export function purchaseRefusalOf(error: unknown): GatewayError {
  const refusal = refusalOf(error);
  if (refusal === error) return refusal;
  const { code, message, headers } = refusal;
  return new GatewayError(code, message, { cause: error, details: { charged: "unknown" }, headers });
}

/** Fields that every refusal of a paid request has in addition to its code, unless money may have moved. */
export function chargedNothing(code: ErrorCode): { charged: false; retryable: boolean } {
  return { charged: false, retryable: ERROR_KINDS[code].retryable };
}

/** Longest time for which a request is held, even if its client prefers to wait longer. */
const MAX_WAIT_SECS = 60;

// `Prefer` by the grammar of RFC 7240 §2, with the tokens and quoted strings of RFC 9110 §5.6.
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const QUOTED = String.raw`"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"`;
const VALUE = String.raw`[ \t]*=[ \t]*(?:${TOKEN}|${QUOTED})`;
const PARAMETERS = String.raw`(?:[ \t]*;(?:[ \t]*${TOKEN}(?:${VALUE})?)?)*`;
const PREFERENCE = `${TOKEN}(?:${VALUE})?${PARAMETERS}`;
const COMMA = String.raw`[ \t]*,[ \t,]*`;
/** Matches a whole `Prefer` header whose first `wait` preference is a number. Later preferences of that name are ignored. */
const WAIT = new RegExp(
  String.raw`^[ \t,]*(?:(?!wait(?:[ \t=;,]|$))${PREFERENCE}${COMMA})*wait[ \t]*=[ \t]*("?)(?<secs>\d+)\1${PARAMETERS}(?:${COMMA}${PREFERENCE})*[ \t,]*$`,
  "i",
);

/**
 * Returns how long the client prefers to wait for its job's result, by `Prefer: wait=N` (RFC 7240 §4.3): 1 to 60
 * seconds. Returns undefined if the header has no such preference or breaks the grammar, because a preference never
 * makes a request fail.
 */
export function preferredWaitSecs(request: HttpRequest): number | undefined {
  const seconds = Number(WAIT.exec(request.headerValues("prefer").join(","))?.groups?.secs);
  return seconds >= 1 ? Math.min(seconds, MAX_WAIT_SECS) : undefined;
}
