import { createHash } from "node:crypto";
import { STATUS_CODES } from "node:http";
import type { PaymentPayload } from "@x402/core/types";
import type { AcceptedToken } from "../../config/config.ts";
import { type ErrorCode, GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { AskedPurchase, SignedPayment } from "../../x402/methods/method.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import type { Asked, PaymentProtocol } from "../../x402/protocols/protocol.ts";
import type { SettlementSummary, UnpaidRequest } from "../../x402/purchase/checkout.ts";
import { chargedNothing } from "../../x402/purchase/job-route.ts";
import { PaymentRefusal, paymentRequired } from "../../x402/purchase/refused-payments.ts";
import { toSignedPayment } from "../../x402/wire/payment-header.ts";
import { type Challenge, type Challenges, challengeHeader } from "./challenges.ts";
import { type Credential, carriesCredential, readCredential, readIdempotencyKey } from "./credential.ts";
import type { MppMethod } from "./methods.ts";

/** Counters of MPP in `GET /x402/stats`. */
export const MPP_COUNTERS = ["mpp_accepted", "mpp_challenge_issued", "mpp_verification_failed"] as const;

export type MppCounter = (typeof MPP_COUNTERS)[number];

interface Parts {
  readonly method: MppMethod;
  /** Transfer methods of the payments. */
  readonly transferMethods: Methods;
  readonly challenges: Challenges;
  readonly tokens: readonly AcceptedToken[];
  readonly count: (counter: MppCounter) => void;
}

const PROBLEMS = "https://paymentauth.org/problems/";
/** Problem types of the specification, by code. A refusal's `problem` replaces the problem type of its code. */
const PROBLEM_OF: Partial<Record<ErrorCode, string>> = {
  payment_required: "payment-required",
  payment_mismatch: "verification-failed",
  payment_invalid: "verification-failed",
  settlement_failed: "verification-failed",
  malformed_credential: "malformed-credential",
};

/** MPP over HTTP: `WWW-Authenticate: Payment`, `Authorization: Payment`, `Payment-Receipt`. */
export class MppProtocol implements PaymentProtocol {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  readonly carriesPayment = carriesCredential;
  readonly bindsBody = true;

  readPayment(request: HttpRequest): SignedPayment | undefined {
    const credential = readCredential(request);
    if (credential === undefined) return undefined;
    const purchaseName = readIdempotencyKey(request);
    return { ...this.toPayment(credential), ...(purchaseName === undefined ? {} : { purchaseName }) };
  }

  /** Reads a credential as the x402 payment that it makes. @throws GatewayError `malformed_credential`, `invalid_payment` */
  toPayment(credential: Credential): SignedPayment {
    const { method, transferMethods } = this.#parts;
    const { challenge } = credential;
    if (challenge.method !== method.name || challenge.intent !== "charge") {
      throw new GatewayError(
        "invalid_payment",
        `Authorization: Payment pays by ${challenge.method}/${challenge.intent}, but only ${method.name}/charge is taken here. Nothing was charged.`,
        { details: { problem: "method-unsupported" } },
      );
    }
    const { payment, job, requestHash } = method.read(credential, transferMethods.versions);
    const signed = readAuthorization(payment, transferMethods);
    return {
      ...signed,
      requireAskedFor: (purchase) =>
        this.#requireAskedFor(credential, signed, { ...purchase, asked: { job, requestHash } }),
    };
  }

  paymentRequired(_request: HttpRequest, unpaid: UnpaidRequest): HttpResponse {
    return this.#respond(paymentRequired(unpaid.offers), unpaid.job, this.challengesFor(unpaid));
  }

  acceptedHeaders(_request: HttpRequest, summary: SettlementSummary): Record<string, string> {
    this.countAccepted(summary);
    const headers = { "cache-control": "private, no-store" };
    const receipt = this.receiptOf(summary);
    if (receipt === undefined) return headers;
    return { "payment-receipt": Buffer.from(JSON.stringify(receipt)).toString("base64url"), ...headers };
  }

  countAccepted({ replayed }: SettlementSummary): void {
    if (!replayed) this.#parts.count("mpp_accepted");
  }

  /** Returns undefined for a payment that is not settled yet. */
  receiptOf({ settlement, takenAt }: SettlementSummary) {
    if (settlement === undefined) return undefined;
    const timestamp = new Date(takenAt).toISOString();
    return {
      status: "success",
      method: this.#parts.method.name,
      timestamp,
      reference: settlement.transaction,
    };
  }

  refuse(request: HttpRequest, job: JobKey, refusal: GatewayError): HttpResponse {
    const isUnverified = problemOf(refusal) !== undefined;
    if (isUnverified && this.carriesPayment(request)) this.#parts.count("mpp_verification_failed");
    const challenges = refusal instanceof PaymentRefusal ? this.challengesFor(refusal) : [];
    return this.#respond(refusal, job, challenges);
  }

  /** Makes a challenge for each offer that the method can pay. */
  challengesFor({ offers, body, requestHash }: Asked): Challenge[] {
    const { method, challenges, tokens, count } = this.#parts;
    // A request with GET has no body whose digest its client could compare.
    const hasBody = body !== undefined && (requestHash === undefined || body.length > 0);
    const digest = method.bindsBody && hasBody ? digestOf(body) : undefined;
    const made = offers.filter(method.takes).map((offer) => {
      const { network, asset } = offer.token;
      const token = tokens.find((token) => token.network === network && token.asset === asset);
      const asked = method.ask(offer, { decimals: token?.decimals, requestHash });
      const { ttlSecs: maxSecs, charge } = offer;
      const runSecs = charge?.runSecs ?? 0;
      return challenges.make({ method: method.name, ...asked, digest, maxSecs, runSecs });
    });
    if (made.length > 0) count("mpp_challenge_issued");
    return made;
  }

  #requireAskedFor(
    { challenge, source }: Credential,
    { from, nonce, network }: SignedPayment,
    {
      asked,
      body,
      requestHash,
      ...job
    }: AskedPurchase & {
      readonly asked: Pick<ReturnType<MppMethod["read"]>, "job" | "requestHash">;
    },
  ): void {
    const { challenges, method } = this.#parts;
    if (!challenges.isOwn(challenge)) {
      throw mismatch("The challenge was not made here, or was changed.", "invalid-challenge");
    }
    if (challenges.hasExpired(challenge)) throw mismatch("The challenge has expired.", "payment-expired");
    if (asked.job !== method.jobText(job))
      throw mismatch("The challenge is for another job.", "invalid-challenge");
    if (asked.requestHash !== requestHash)
      throw mismatch("The challenge is for another request.", "invalid-challenge");
    if (challenge.digest !== undefined && challenge.digest !== digestOf(body)) {
      throw mismatch("The challenge is for another body.", "invalid-challenge");
    }
    const bound = method.nonceOf?.(challenge);
    if (bound !== undefined && bound !== nonce) {
      throw mismatch("The authorization's nonce is not the hash of the challenge.", "verification-failed");
    }
    if (source !== undefined && source.toLowerCase() !== `did:pkh:${network}:${from}`) {
      throw mismatch("The source is not the payer on the challenge's network.", "verification-failed");
    }
  }

  /** Answers with a problem (RFC 9457) that has the fields of every other refusal too. */
  #respond(refusal: GatewayError, job: JobKey, challenges: readonly Challenge[]): HttpResponse {
    const { code, status, message, headers } = refusal;
    const { problem: _, ...details } = refusal.details;
    const type = problemOf(refusal);
    const response = jsonResponse(
      status,
      {
        type: type === undefined ? this.#ownProblem(code) : `${PROBLEMS}${type}`,
        title: STATUS_CODES[status],
        status,
        detail: message,
        ...(challenges.length > 0 && { challenge_ids: challenges.map(({ id }) => id) }),
        service_id: job.serviceId,
        job_index: job.jobIndex,
        error: message,
        code,
        ...chargedNothing(code),
        ...details,
      },
      {
        "content-type": "application/problem+json",
        ...(challenges.length > 0 && { "www-authenticate": challenges.map(challengeHeader) }),
        ...headers,
      },
    );
    return { ...response, refusal: code };
  }

  #ownProblem(code: ErrorCode): string {
    const { problemBase } = this.#parts.method;
    return problemBase.endsWith("/") ? `${problemBase}${code.replaceAll("_", "-")}` : problemBase;
  }
}

/** Returns the problem type of the specification that a refusal has; undefined if the specification has none for it. */
export function problemOf({ code, details }: GatewayError): string | undefined {
  const { problem = PROBLEM_OF[code] } = details;
  return problem === undefined ? undefined : String(problem);
}

/** @throws GatewayError `malformed_credential` */
function readAuthorization(payment: PaymentPayload, methods: Methods): SignedPayment {
  try {
    return toSignedPayment(payment, "Authorization: Payment", methods);
  } catch (cause) {
    if (!(cause instanceof GatewayError)) throw cause;
    throw new GatewayError("malformed_credential", `${cause.message} Nothing was charged.`, { cause });
  }
}

/** Writes the digest of a body as RFC 9530 has it. */
function digestOf(body: Uint8Array): string {
  return `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
}

function mismatch(what: string, problem: string): GatewayError {
  return new GatewayError(
    "payment_mismatch",
    `${what} Nothing was charged: answer one of these challenges.`,
    {
      details: { problem },
    },
  );
}
