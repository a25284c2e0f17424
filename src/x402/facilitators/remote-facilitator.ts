import * as z from "zod";
import { splitCredentials } from "../../chain/basic-auth.ts";
import type { RemoteFacilitatorConfig } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { parseJson } from "../../core/objects.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import { type Answer, JsonEndpoint, type NewHeaders } from "../../node/json-endpoint.ts";
import { Versions } from "../wire/version.ts";
import {
  DUPLICATE_SETTLEMENT,
  type ExtensionResponses,
  type Facilitator,
  type FacilitatorRequest,
  measureRequest,
  RateLimited,
  readExtensionResponses,
  type SettlementAnswer,
  type Supported,
  type Verification,
} from "./facilitator.ts";

/** Largest answer that is read. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** Longest reason that is kept. It goes to the client inside a header, and clients refuse long reasons. */
const MAX_REASON_LENGTH = 200;

const optionalText = z
  .string()
  .nullish()
  // Facilitators in Go and Rust write "" for an unknown value.
  .transform((text) => text || undefined);
const optionalReason = optionalText.transform((text) => text?.slice(0, MAX_REASON_LENGTH));
/** The SDK's wire format. It does not export its schemas, and `success: "true"` must not be accepted as success. */
const verifyAnswer = z.object({ isValid: z.boolean(), invalidReason: optionalReason, payer: optionalText });
const settleAnswer = z.object({
  success: z.boolean(),
  errorReason: optionalReason,
  payer: optionalText,
  transaction: optionalText,
  network: optionalText,
  amount: optionalText,
});

const supportedAnswer = z.object({
  kinds: z.array(
    z.object({
      x402Version: z.number(),
      scheme: z.string(),
      network: z.string(),
      extra: z.record(z.string(), z.unknown()).optional().catch(undefined),
    }),
  ),
  extensions: z.array(z.string()).catch([]),
  signers: z.record(z.string(), z.array(z.string())).catch({}),
});

interface HttpAnswer {
  readonly status: number;
  readonly body: unknown;
  /** Set if the answer was a 429. */
  readonly retryAfterMs?: number | undefined;
  readonly extensionResponses?: ExtensionResponses | undefined;
}

/**
 * Client of an x402 facilitator: POST `/verify` and `/settle` with `{x402Version, paymentPayload,
 * paymentRequirements}`, GET `/supported`.
 *
 * Replaces the SDK's `HTTPFacilitatorClient`, which has three faults. It follows redirects, so it would send a signed
 * payment to any host that an answer names. It reads answers of any size. It does not distinguish a request that was
 * never sent from a lost answer.
 */
export class RemoteFacilitator implements Facilitator {
  readonly name: string;
  #newHeaders: NewHeaders = () => ({});
  readonly #verifyEndpoint: JsonEndpoint;
  readonly #settleEndpoint: JsonEndpoint;
  readonly #supportedEndpoint: JsonEndpoint;
  readonly #versions: Versions;
  readonly #telemetry: Telemetry;

  /** @param parts `timeoutMs` is for one call, the body of its answer included */
  constructor(
    parts: Omit<RemoteFacilitatorConfig, "kind" | "networks"> & {
      readonly timeoutMs: number;
      readonly versions?: Versions;
      readonly telemetry?: Telemetry;
    },
  ) {
    const { url } = splitCredentials(parts.url);
    const endpoint = (path: string, connectionsOf?: JsonEndpoint) =>
      new JsonEndpoint({
        url: `${url}${path}`,
        headers: {},
        timeoutMs: parts.timeoutMs,
        maxAnswerBytes: MAX_ANSWER_BYTES,
        newHeaders: (method, to) => this.#newHeaders(method, to),
        connectionsOf,
      });
    this.name = parts.name;
    this.reload(parts);
    this.#verifyEndpoint = endpoint("/verify");
    // Both endpoints share connections, so that a single payment opens only one. A stale connection fails during
    // verification, which is repeated.
    this.#settleEndpoint = endpoint("/settle", this.#verifyEndpoint);
    this.#supportedEndpoint = endpoint("/supported");
    this.#versions = parts.versions ?? new Versions();
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
  }

  /** Authenticates later requests with these headers, keys, or credentials of the URL. */
  reload(config: Pick<RemoteFacilitatorConfig, "url" | "headers" | "auth">): void {
    const fixed = { ...splitCredentials(config.url).headers, ...config.headers };
    this.#newHeaders = (method, to) => ({ ...fixed, ...config.auth?.newHeaders(method, to) });
  }

  verify(request: FacilitatorRequest): Promise<Verification> {
    return measureRequest(this.#telemetry, this.name, "verify", () => this.#verify(request));
  }

  settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    return measureRequest(this.#telemetry, this.name, "settle", () => this.#settle(request));
  }

  async supported(): Promise<Supported> {
    const received = await this.#supportedEndpoint.get().catch((cause: unknown) => {
      throw new Error("does not answer; expected an x402 facilitator", { cause });
    });
    const { status, body, retryAfterMs } = toHttpAnswer(received);
    if (retryAfterMs !== undefined) throw new RateLimited(retryAfterMs);
    if (status !== 200) throw new Error(`answers /supported with status ${status}; expected 200`);
    if (body === undefined) {
      throw new Error("answers /supported with something other than JSON; expected an x402 facilitator");
    }
    const answer = supportedAnswer.safeParse(body);
    if (answer.success) return answer.data as Supported;
    throw new Error("answers /supported with no list of kinds; expected an x402 facilitator");
  }

  async #verify(request: FacilitatorRequest): Promise<Verification> {
    const { status, body, retryAfterMs } = await post(this.#verifyEndpoint, request)
      // A stale kept-alive socket fails once, and repeating a verification is harmless.
      .catch((error: unknown) =>
        isTimeout(error) ? Promise.reject(error) : post(this.#verifyEndpoint, request),
      )
      .catch((cause: unknown) => {
        throw unavailable("It gave no answer that can be understood.", cause);
      });
    const answer = verifyAnswer.safeParse(body);
    // Some facilitators answer 4xx with the reason for a refusal; a 5xx says nothing about the payment.
    if (!answer.success || status >= 500 || (status >= 300 && answer.data.isValid)) {
      const cause = retryAfterMs === undefined ? undefined : new RateLimited(retryAfterMs);
      throw unavailable(`It answered with status ${status} and no verdict.`, cause);
    }
    const { isValid, invalidReason, payer } = answer.data;
    if (!isValid) return { kind: "invalid", reason: invalidReason ?? "no reason given" };
    return { kind: "valid", payer };
  }

  async #settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    let received: HttpAnswer;
    try {
      received = await post(this.#settleEndpoint, request);
    } catch (error) {
      return { kind: "no_answer", reason: isTimeout(error) ? "timed out" : describe(error) };
    }
    const answer = settleAnswer.safeParse(received.body);
    if (!answer.success) return { kind: "no_answer", reason: `status ${received.status} with no verdict` };
    const { success, errorReason, payer, transaction, network, amount } = answer.data;
    const { extensionResponses } = received;
    if (!success) {
      // An earlier answer may have reported success without arriving.
      if (errorReason === DUPLICATE_SETTLEMENT) return { kind: "no_answer", reason: errorReason };
      return {
        kind: "refused",
        reason: errorReason ?? "no reason given",
        transaction: transaction || undefined,
        extensionResponses,
      };
    }
    if (received.status >= 300 || !transaction || !network) {
      return { kind: "no_answer", reason: `status ${received.status} with an incomplete success` };
    }
    return {
      kind: "success",
      transaction,
      network: this.#versions.networkOf(network),
      payer,
      amount,
      extensionResponses,
    };
  }
}

async function post(
  endpoint: JsonEndpoint,
  { payload, requirements }: FacilitatorRequest,
): Promise<HttpAnswer> {
  const { x402Version } = payload;
  const request = { x402Version, paymentPayload: payload, paymentRequirements: requirements };
  return toHttpAnswer(await endpoint.post(JSON.stringify(request)));
}

function toHttpAnswer({ status, headers, text }: Answer): HttpAnswer {
  const extensionResponses = readExtensionResponses(headers["extension-responses"]);
  return {
    status,
    body: parseJson(text),
    retryAfterMs: status === 429 ? readRetryAfterMs(headers["retry-after"]) : undefined,
    extensionResponses,
  };
}

/** Wait after a 429 without a Retry-After header. */
const DEFAULT_RETRY_AFTER_MS = 10_000;
const MAX_RETRY_AFTER_MS = 600_000;

/** Reads seconds or a date (RFC 9110 §10.2.3). */
function readRetryAfterMs(header: string | undefined): number {
  const ms = /^[0-9]+$/.test(header ?? "") ? Number(header) * 1000 : Date.parse(header ?? "") - Date.now();
  return Number.isNaN(ms) ? DEFAULT_RETRY_AFTER_MS : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS);
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === "TimeoutError";
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return (error as NodeJS.ErrnoException).code ?? error.message;
}

function unavailable(detail: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "facilitator_unavailable",
    `The payment could not be verified, because the facilitator is not available. ${detail} Nothing was charged: try again.`,
    { cause, headers: { "retry-after": "2" } },
  );
}
