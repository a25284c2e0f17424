import type { Logger } from "pino";
import type { WebhookChallenge, WebhookEndpoint } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import { GatewayError, refusalOf, UnknownOutcomeError } from "../core/errors.ts";
import type { IpRange } from "../core/network-address.ts";
import type { RateLimit } from "../http/limits.ts";
import { createSourceCheck, type HttpRequest } from "../http/request.ts";
import { type HttpResponse, JSON_HEADERS } from "../http/response.ts";
import type { MethodHandlers } from "../http/routes.ts";
import type { AcceptOnceOutcome, Intake } from "../store/contract/intake.ts";
import { type AuthScheme, unauthorized } from "./auth/auth-scheme.ts";
import { schemeOf } from "./auth/schemes.ts";
import { answerChallenge, challengeResponse, isChallenge } from "./challenge.ts";
import { createDedupe, type DeliveryOf } from "./dedupe.ts";
import { WebhookProducer } from "./producer.ts";

/** Time between two info logs about the same old secret. */
const REMINDER_MS = 60 * 60_000;

interface Parts {
  readonly endpoint: WebhookEndpoint;
  readonly maxBodyBytes: number;
  readonly trustedProxies: readonly IpRange[];
  /** Service ID of every JobCall, a u64. */
  readonly serviceId: bigint;
  readonly intake: Intake;
  /** @throws GatewayError for an authentic request that is refused */
  readonly admit: (endpoint: WebhookEndpoint) => void;
  /** Shared by all endpoints, keyed by their path. */
  readonly rateLimit: RateLimit;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * One endpoint, which turns each authentic request into one durable JobCall. Other requests never reach the store, and the
 * endpoint's rate limit does not count them.
 */
export class WebhookRoute {
  readonly #parts: Parts;
  readonly #endpoint: WebhookEndpoint;
  readonly #scheme: AuthScheme;
  readonly #isFromSender: ReturnType<typeof createSourceCheck> | undefined;
  readonly #deliveryOf: DeliveryOf | undefined;
  readonly #producer: WebhookProducer;
  /** JSON of an accepted call up to its ID. */
  readonly #acceptedJson: string;
  /** Times of the last info log about each old secret, by its name. */
  readonly #remindedAt = new Map<string, number>();

  constructor(parts: Parts) {
    this.#parts = parts;
    const { endpoint, serviceId, trustedProxies } = parts;
    this.#endpoint = endpoint;
    this.#scheme = schemeOf(endpoint);
    this.#isFromSender =
      endpoint.allowCidrs && createSourceCheck({ allowCidrs: endpoint.allowCidrs, trustedProxies });
    this.#deliveryOf = createDedupe(endpoint, this.#scheme);
    this.#producer = new WebhookProducer({ endpoint, serviceId });
    this.#acceptedJson = `{"status":"accepted","job_id":${endpoint.jobId},"call_id":`;
  }

  handlers(): MethodHandlers {
    const { path, challenge } = this.#endpoint;
    return {
      // Logs and metrics get the pattern instead of the raw path, which may contain a token.
      route: path,
      POST: (request) => this.#post(request),
      ...(challenge?.method === "GET" ? { GET: (request) => this.#challenge(request, challenge) } : {}),
    };
  }

  async #post(request: HttpRequest): Promise<HttpResponse> {
    const { path, challenge, rateLimitPerSecond } = this.#endpoint;
    if (challenge?.method === "POST" && isChallenge(request, challenge))
      return this.#challenge(request, challenge);
    this.#checkSource(request);
    const body = await request.readBody(this.#parts.maxBodyBytes);
    this.#authenticate(request, body);
    const handshake = this.#scheme.handshake?.(body);
    if (handshake !== undefined) return challengeResponse(handshake);
    this.#parts.admit(this.#endpoint);
    if (rateLimitPerSecond !== undefined) {
      const reason = `This endpoint takes ${rateLimitPerSecond} requests a second`;
      this.#parts.rateLimit.count(path, rateLimitPerSecond, reason);
    }
    return this.#answer(await this.#accept(request, body));
  }

  /** Answers a challenge. Senders do not sign challenges. If the endpoint's secret is in the URL, it must be right. */
  #challenge(request: HttpRequest, challenge: WebhookChallenge): HttpResponse {
    this.#checkSource(request);
    if (this.#endpoint.auth.mode === "url-token") this.#authenticate(request, new Uint8Array());
    return answerChallenge(request, challenge);
  }

  #checkSource(request: HttpRequest): void {
    if (this.#isFromSender?.(request) === false) throw unauthorized(this.#endpoint.auth);
  }

  #authenticate(request: HttpRequest, body: Uint8Array): void {
    const authentic = this.#scheme.authenticate(request, body, this.#parts.clock());
    if (authentic === undefined) throw unauthorized(this.#endpoint.auth);
    if (authentic.secretName !== undefined) this.#logSecretUse(authentic.secretName);
  }

  /** Logs which secret a sender used, so that the operator sees when an old secret can be removed. */
  #logSecretUse(secretName: string): void {
    const { path, auth } = this.#endpoint;
    this.#parts.logger.debug({ endpoint: path, secretName }, "webhook authenticated");
    const currentName = auth.mode === "none" ? undefined : auth.secrets[0]?.name;
    if (secretName === currentName) return;
    const now = this.#parts.clock();
    if (now - (this.#remindedAt.get(secretName) ?? Number.NEGATIVE_INFINITY) < REMINDER_MS) return;
    this.#remindedAt.set(secretName, now);
    this.#parts.logger.info(
      { endpoint: path, secretName, currentName },
      "a sender still uses an old webhook secret",
    );
  }

  async #accept(request: HttpRequest, body: Uint8Array): Promise<AcceptOnceOutcome> {
    const { intake } = this.#parts;
    const requestMetadata = this.#producer.readHeaders(request);
    const order = this.#endpoint.orderOf?.(request, body);
    const call = this.#producer.jobCall({ body, requestMetadata, order });
    const delivery = this.#deliveryOf?.(request, body);
    try {
      return await (delivery === undefined ? intake.accept(call) : intake.acceptOnce(call, delivery));
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) throw error;
      this.#parts.logger.error(
        { err: error, request: request.id, endpoint: this.#endpoint.path },
        "it is not known whether a webhook was stored",
      );
      throw maybeStored(error, delivery !== undefined);
    }
  }

  #answer(outcome: AcceptOnceOutcome): HttpResponse {
    switch (outcome.kind) {
      case "queue_full":
        throw new GatewayError("queue_full", "The queue is full: send this again later.", {
          headers: { "retry-after": "5" },
        });
      case "key_paused":
        throw new GatewayError("job_paused", "The key of this event is paused: send this again later.", {
          headers: { "retry-after": "60" },
        });
      case "conflict":
        throw new GatewayError(
          "duplicate_conflict",
          "A delivery with this id was accepted with another body.",
        );
      case "accepted":
      case "duplicate": {
        const { callId } = outcome;
        const duplicate = outcome.kind === "duplicate" ? ',"duplicate":true' : "";
        return {
          status: 202,
          headers: JSON_HEADERS,
          body: `${this.#acceptedJson}${callId}${duplicate}}`,
          callId,
        };
      }
    }
  }
}

/** The refusal of an event that may be in the store. */
function maybeStored(cause: UnknownOutcomeError, recognisesRepeats: boolean): GatewayError {
  const repeat = recognisesRepeats
    ? "Send it again unchanged: it starts one job."
    : "This endpoint does not recognise repeats: sent again, it may start a second job.";
  const { code, headers } = refusalOf(cause);
  return new GatewayError(code, `It is not known whether the store has this event. ${repeat}`, {
    cause,
    headers,
  });
}
