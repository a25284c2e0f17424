import type { WebhookChallenge } from "../config/config.ts";
import { equalInConstantTime } from "../core/constant-time.ts";
import { GatewayError } from "../core/errors.ts";
import type { HttpRequest } from "../http/request.ts";
import type { HttpResponse } from "../http/response.ts";
import { unauthorized } from "./auth/auth-scheme.ts";

/** Longest challenge; senders use up to a few hundred characters. */
const MAX_LENGTH = 2_048;

/** Returns true if a request is a sender's test of the endpoint and not a delivery. */
export function isChallenge({ query }: HttpRequest, { parameter }: WebhookChallenge): boolean {
  return new URLSearchParams(query).has(parameter);
}

/**
 * Answers with the value of the challenge parameter.
 * @throws GatewayError `unauthorized` without the configured token in the verify parameter; `bad_request`
 */
export function answerChallenge({ query }: HttpRequest, challenge: WebhookChallenge): HttpResponse {
  const parameters = new URLSearchParams(query);
  const { parameter, verify } = challenge;
  if (verify !== undefined && !equalInConstantTime(single(parameters, verify.parameter) ?? "", verify.token))
    throw unauthorized();
  const value = single(parameters, parameter);
  if (value === undefined)
    throw new GatewayError("bad_request", `Expected the query parameter ${parameter} once.`);
  return challengeResponse(value);
}

/**
 * Answers with the sender's text, in a way that a browser treats as plain text.
 * @throws GatewayError `bad_request` for a text that is empty, too long, or contains control characters
 */
export function challengeResponse(value: string): HttpResponse {
  if (value.length > MAX_LENGTH || !/^\P{Cc}+$/u.test(value))
    throw new GatewayError("bad_request", `Expected a challenge of 1 to ${MAX_LENGTH} printable characters.`);
  return {
    status: 200,
    headers: {
      "content-type": "text/plain; charset=utf-8",
      "content-security-policy": "default-src 'none'; sandbox",
      "cache-control": "no-store",
    },
    body: value,
  };
}

function single(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name);
  return values.length === 1 ? values[0] : undefined;
}
