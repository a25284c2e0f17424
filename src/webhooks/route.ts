import type { Logger } from "pino";
import type { WebhookEndpoint } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import { GatewayError } from "../core/errors.ts";
import type { IpRange } from "../core/network-address.ts";
import type { RateLimit } from "../http/rate-limit.ts";
import type { HttpRequest } from "../http/request.ts";
import { type HttpResponse, jsonResponse } from "../http/response.ts";
import type { MethodHandlers } from "../http/routes.ts";
import type { Intake } from "../store/contract/intake.ts";
import { schemeOf } from "./auth/scheme-of.ts";
import { answerChallenge, challengeResponse, isChallenge } from "./challenge.ts";
import { createDedupe } from "./dedupe.ts";
import type { WebhookProducer } from "./producer.ts";
import { createSecretUse } from "./secret-use.ts";
import { createSourceCheck } from "./source-address.ts";
import { unauthorized } from "./unauthorized.ts";

export interface WebhookRouteOptions {
  readonly endpoint: WebhookEndpoint;
  readonly maxBodyBytes: number;
  readonly trustedProxies: readonly IpRange[];
  readonly producer: WebhookProducer;
  readonly intake: Intake;
  /** Shared by all endpoints, keyed by their path. */
  readonly rateLimit: RateLimit;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * One endpoint: an authentic request becomes one durable JobCall. One that is not never reaches the store, and uses up
 * nothing of the endpoint's rate limit.
 */
export function webhookRoute(options: WebhookRouteOptions): MethodHandlers {
  const { endpoint, maxBodyBytes, trustedProxies, producer, intake, rateLimit, clock } = options;
  const { path, auth, challenge, allowCidrs, rateLimitPerSecond } = endpoint;
  const scheme = schemeOf(endpoint);
  const isFromSender = allowCidrs && createSourceCheck({ allowCidrs, trustedProxies });
  const deliveryOf = createDedupe(endpoint, scheme);
  const tellUse = createSecretUse(options);

  function authenticate(request: HttpRequest, body: Uint8Array): void {
    const authentic = scheme.authenticate(request, body, clock());
    if (authentic === undefined) throw unauthorized();
    tellUse(authentic.secretName);
  }

  function checkSource(request: HttpRequest): void {
    if (isFromSender?.(request) === false) throw unauthorized();
  }

  /** Senders sign no challenge; but a secret that is in the URL is there. */
  function greet(request: HttpRequest, expected: NonNullable<typeof challenge>): HttpResponse {
    checkSource(request);
    if (auth.mode === "url-token") authenticate(request, new Uint8Array());
    return answerChallenge(request, expected);
  }

  async function post(request: HttpRequest): Promise<HttpResponse> {
    if (challenge?.method === "POST" && isChallenge(request, challenge)) return greet(request, challenge);
    checkSource(request);
    const body = await request.readBody(maxBodyBytes);
    authenticate(request, body);
    const greeting = scheme.handshake?.(body);
    if (greeting !== undefined) return challengeResponse(greeting);
    if (rateLimitPerSecond !== undefined) {
      await rateLimit.count(
        path,
        rateLimitPerSecond,
        `This endpoint takes ${rateLimitPerSecond} requests a second`,
      );
    }
    return accept(request, body);
  }

  async function accept(request: HttpRequest, body: Uint8Array): Promise<HttpResponse> {
    const call = producer.jobCall(endpoint, body);
    const outcome = await (deliveryOf === undefined
      ? intake.accept(call)
      : intake.acceptOnce(call, deliveryOf(request, body)));
    switch (outcome.kind) {
      case "queue_full":
        throw new GatewayError("queue_full", "The queue is full: send this again later.", {
          headers: { "retry-after": "5" },
        });
      case "conflict":
        throw new GatewayError(
          "duplicate_conflict",
          "A delivery with this id was accepted with another body.",
        );
      case "accepted":
      case "duplicate": {
        const { callId } = outcome;
        const answer = jsonResponse(202, {
          status: "accepted",
          job_id: endpoint.jobId,
          call_id: callId,
          ...(outcome.kind === "duplicate" ? { duplicate: true } : {}),
        });
        return { ...answer, callId };
      }
    }
  }

  return {
    POST: post,
    ...(challenge?.method === "GET" ? { GET: (request) => greet(request, challenge) } : {}),
  };
}
