import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import { type ErrorCode, GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { JobRequest } from "../../http/request.ts";
import {
  REFUSED_AT_ONCE,
  type RefusedPayment,
  type RefusedPaymentLog,
} from "../../store/contract/refused-payments.ts";
import type { Listing } from "../jobs/listing.ts";
import type { PaymentReader } from "../methods/method.ts";
import type { PaymentOutcome } from "../settlement/payment-outcome.ts";
import type { X402Stats } from "../stats.ts";
import type { Offer } from "../wire/offer.ts";

/** A refusal of a payment that tells its payer what to sign instead, by the message and by further fields of the offers. */
export class Correction extends GatewayError {
  readonly correct: (offer: Offer) => Offer;

  constructor(message: string, correct: Correction["correct"]) {
    super("payment_mismatch", message);
    this.correct = correct;
  }
}

/** A refusal with status 402, and the offers that the client can pay instead. */
export class PaymentRefusal extends GatewayError {
  readonly offers: readonly Offer[];
  /** Body of the refused request. */
  readonly body: Uint8Array | undefined;
  /** Hash of the whole refused request, at a job's own route. */
  readonly requestHash: string | undefined;
  /** The settlement that failed, if settlement was requested. */
  readonly settled:
    | Pick<PaymentOutcome & { kind: "failed" }, "settlement" | "extensionResponses">
    | undefined;

  constructor(
    refusal: GatewayError,
    offers: readonly Offer[],
    { body, requestHash, settled }: Partial<Pick<PaymentRefusal, "body" | "requestHash" | "settled">> = {},
  ) {
    const { code, message, cause, details, headers } = refusal;
    super(code, message, { cause, details, headers });
    this.offers = offers;
    this.body = body;
    this.requestHash = requestHash;
    this.settled = settled;
  }
}

/** Returns the refusal of a request without a payment. */
export function paymentRequired(offers: readonly Offer[]): PaymentRefusal {
  const refusal = new GatewayError(
    "payment_required",
    "This job must be paid for: sign one of the offers and send the request again.",
  );
  return new PaymentRefusal(refusal, offers);
}

/** Time between two writes of refusals to the store. */
const ROUND_MS = 1_000;
/** Time after a write until a write that only deletes old refusals. */
const FORGET_MS = 60_000;
/** Largest number of refusals that wait for a write, so that a flood of refusals uses little memory. */
const MAX_WAITING = 10_000;
/** Longest text that is kept, because clients and facilitators write some of the texts. */
const MAX_TEXT = 500;
const MAX_CAUSES = 5;

interface Parts {
  readonly log: Pick<RefusedPaymentLog, "saveRefusedPayments">;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A refused request for a job, with its protocol. */
interface RefusedRequest {
  readonly request: JobRequest;
  readonly job: JobKey;
  readonly protocol: PaymentReader;
}

/**
 * Stores the reasons why payments were refused. Refusals are written in the background, many at once, because anyone can
 * cause them. Refusals that wait are lost if the process is killed.
 */
export class RefusedPayments implements BackgroundService {
  readonly #parts: Parts;
  readonly #waiting: RefusedPayment[] = [];
  #forgetAt = 0;
  #isFailing = false;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async start(): Promise<void> {
    this.#schedule();
  }

  /** Writes the waiting refusals once. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#round;
    if (this.#waiting.length > 0) await this.#write();
  }

  /** Logs and keeps a refusal, if the request carried a payment. */
  note(refusal: GatewayError, { request, job, protocol }: RefusedRequest): void {
    if (!protocol.carriesPayment(request)) return;
    const { logger, telemetry, clock } = this.#parts;
    const refused: RefusedPayment = {
      at: clock(),
      requestId: request.id,
      serviceId: job.serviceId,
      jobIndex: job.jobIndex,
      code: refusal.code,
      message: refusal.message.slice(0, MAX_TEXT),
      ...reasonOf(refusal),
      ...paymentOf(request, protocol),
    };
    const { requestId, code, reason, payment } = refused;
    const of = { request: requestId, job: jobKeyText(job.serviceId, job.jobIndex), code };
    logger.info({ ...of, payer: payment?.payer, reason }, "paid request refused");
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push(refused);
    else telemetry.count("jobgate_refused_payments_lost_total", {});
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      this.#round = this.#write().finally(() => {
        if (!this.#stopped) this.#schedule();
      });
    }, ROUND_MS).unref();
  }

  /** Writes all waiting refusals. Refusals that cannot be written wait for the next round. Never rejects. */
  async #write(): Promise<void> {
    const { log, logger } = this.#parts;
    try {
      while (this.#waiting.length > 0 || performance.now() >= this.#forgetAt) {
        const refused = this.#waiting.slice(0, REFUSED_AT_ONCE);
        await log.saveRefusedPayments(refused);
        this.#waiting.splice(0, refused.length);
        this.#forgetAt = performance.now() + FORGET_MS;
        this.#isFailing = false;
      }
    } catch (error) {
      if (!this.#isFailing) logger.warn({ err: error }, "could not keep refused payments; trying again");
      this.#isFailing = true;
    }
  }
}

/** Returns the payment's own claims, verified or not. */
function paymentOf(request: JobRequest, protocol: PaymentReader): Pick<RefusedPayment, "payment"> {
  try {
    const payment = protocol.readPayment(request);
    if (payment === undefined) return {};
    const { from: payer, network, value } = payment;
    return { payment: { payer, network: network.slice(0, MAX_TEXT), amount: String(value) } };
  } catch {
    // The refusal says what is wrong with it.
    return {};
  }
}

/** The facilitator's reason, or the errors that caused the refusal. */
function reasonOf(refusal: GatewayError): Pick<RefusedPayment, "reason"> {
  const settlement = refusal instanceof PaymentRefusal ? refusal.settled?.settlement : undefined;
  const texts = settlement?.errorReason === undefined ? causesOf(refusal) : [settlement.errorReason];
  const reason = withoutPaths(texts.join(": ")).slice(0, MAX_TEXT);
  return reason === "" ? {} : { reason };
}

function causesOf({ cause }: Error): string[] {
  const texts: string[] = [];
  for (let next = cause; next !== undefined && texts.length < MAX_CAUSES; ) {
    texts.push(next instanceof Error ? next.message : String(next));
    next = next instanceof Error ? next.cause : undefined;
  }
  return texts;
}

/** Keeps only the origin of each URL, because the rest may hold a key. */
function withoutPaths(text: string): string {
  return text.replace(/(\w+:\/\/)(?:[^/\s@]*@)?([^/\s?#]*)\S*/g, "$1$2");
}

/** Receives the refusals of all protocols. */
export class Refusals {
  readonly #listing: Pick<Listing, "has">;
  readonly #stats: X402Stats;
  readonly #telemetry: Telemetry;
  readonly #refused: RefusedPayments;

  constructor(parts: {
    readonly listing: Pick<Listing, "has">;
    readonly stats: X402Stats;
    readonly telemetry: Telemetry;
    readonly refused: RefusedPayments;
  }) {
    this.#listing = parts.listing;
    this.#stats = parts.stats;
    this.#telemetry = parts.telemetry;
    this.#refused = parts.refused;
  }

  count(code: ErrorCode, job: JobKey): void {
    this.#stats.countRefusal(code);
    const labels = { service_id: String(job.serviceId), job_id: String(job.jobIndex), error: code };
    if (this.#listing.has(job)) this.#telemetry.count("jobgate_job_refusals_total", labels);
  }

  /** Counts the refusal, and keeps it for the operator if the request carried a payment. */
  add(refusal: GatewayError, refused: RefusedRequest): void {
    this.count(refusal.code, refused.job);
    this.#refused.note(refusal, refused);
  }
}
