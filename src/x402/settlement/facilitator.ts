import type {
  PaymentPayload,
  PaymentPayloadV1,
  PaymentRequirements,
  PaymentRequirementsV1,
} from "@x402/core/types";
import { z } from "zod";
import { splitCredentials } from "../../chain/basic-auth.ts";
import { GatewayError } from "../../core/errors.ts";
import { readBoundedBody } from "../../http/response.ts";
import { measure, NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";

/** A payment and the requirements that it has to meet, both of one protocol version. */
export interface FacilitatorRequest {
  readonly payload: PaymentPayload | PaymentPayloadV1;
  readonly requirements: PaymentRequirements | PaymentRequirementsV1;
}

/** Verdict on a payment. `reason` is the facilitator's own word. */
type Verification =
  | { readonly kind: "valid"; readonly payer?: string }
  | { readonly kind: "invalid"; readonly reason: string };

export type SettlementAnswer =
  /** The facilitator claims that it settled; the caller has to find out whether that is true. */
  | {
      readonly kind: "success";
      readonly transaction: string;
      readonly network: string;
      readonly payer?: string;
    }
  /** The facilitator says no, which does not prove that nothing moved. */
  | { readonly kind: "refused"; readonly reason: string; readonly transaction?: string }
  /** No usable answer: anything may have happened. */
  | { readonly kind: "no_answer"; readonly reason: string };

/** Largest answer that is read. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** Longest reason that is kept. It goes to the client inside a header, and clients refuse long ones. */
const MAX_REASON_LENGTH = 200;

const optionalText = z
  .string()
  .nullish()
  // Facilitators in Go and Rust write "" for an unknown value.
  .transform((text) => text || undefined);
const optionalReason = optionalText.transform((text) => text?.slice(0, MAX_REASON_LENGTH));
/** The SDK's wire format. It does not export its schemas, and `success: "true"` must not count as success. */
const verifyAnswer = z.object({ isValid: z.boolean(), invalidReason: optionalReason, payer: optionalText });
const settleAnswer = z.object({
  success: z.boolean(),
  errorReason: optionalReason,
  payer: optionalText,
  transaction: optionalText,
  network: optionalText,
});

interface HttpAnswer {
  readonly status: number;
  readonly body: unknown;
}

/**
 * Client of an x402 facilitator: POST `/verify` and `/settle` with `{x402Version, paymentPayload, paymentRequirements}`.
 *
 * Replaces the SDK's `HTTPFacilitatorClient`, which follows redirects and so would hand a signed payment to any host
 * that an answer names, reads answers of any size, and does not tell a request that was never sent from a lost answer.
 */
export class Facilitator {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #telemetry: Telemetry;

  /**
   * @param parts `url` has no trailing slash and may hold credentials; `timeoutMs` is for one call, its body included
   */
  constructor(parts: { readonly url: string; readonly timeoutMs: number; readonly telemetry?: Telemetry }) {
    const { url, headers } = splitCredentials(parts.url);
    this.#url = url;
    this.#headers = headers;
    this.#timeoutMs = parts.timeoutMs;
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
  }

  /** Asks whether the payment would settle. Moves nothing. @throws GatewayError `facilitator_unavailable` */
  verify(request: FacilitatorRequest): Promise<Verification> {
    return this.#measured("verify", () => this.#verify(request));
  }

  /** Asks to settle, once: this client does not repeat a request whose answer was lost. Never throws. */
  settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    return this.#measured("settle", () => this.#settle(request));
  }

  #measured<T extends { readonly kind: string }>(
    operation: "verify" | "settle",
    ask: () => Promise<T>,
  ): Promise<T> {
    return measure(
      this.#telemetry,
      {
        histogram: "jobgate_facilitator_request_duration_seconds",
        labels: (result) => ({ operation, outcome: "value" in result ? result.value.kind : "no_answer" }),
        span: `facilitator.${operation}`,
      },
      ask,
    );
  }

  async #verify(request: FacilitatorRequest): Promise<Verification> {
    const { status, body } = await this.#post("/verify", request)
      // A stale kept-alive socket fails once, and verifying twice is harmless.
      .catch((error: unknown) => (isTimeout(error) ? Promise.reject(error) : this.#post("/verify", request)))
      .catch((cause: unknown) => {
        throw unavailable("It gave no answer that can be understood.", cause);
      });
    const answer = verifyAnswer.safeParse(body);
    // Some facilitators answer 4xx with the reason for a refusal; a 5xx says nothing about the payment.
    if (!answer.success || status >= 500 || (status >= 300 && answer.data.isValid)) {
      throw unavailable(`It answered with status ${status} and no verdict.`);
    }
    const { isValid, invalidReason, payer } = answer.data;
    if (!isValid) return { kind: "invalid", reason: invalidReason ?? "no reason given" };
    return { kind: "valid", ...(payer === undefined ? {} : { payer }) };
  }

  async #settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    let received: HttpAnswer;
    try {
      received = await this.#post("/settle", request);
    } catch (error) {
      return { kind: "no_answer", reason: isTimeout(error) ? "timed out" : describe(error) };
    }
    const answer = settleAnswer.safeParse(received.body);
    if (!answer.success) return { kind: "no_answer", reason: `status ${received.status} with no verdict` };
    const { success, errorReason, payer, transaction, network } = answer.data;
    if (!success) {
      return {
        kind: "refused",
        reason: errorReason ?? "no reason given",
        ...(transaction ? { transaction } : {}),
      };
    }
    if (received.status >= 300 || !transaction || !network) {
      return { kind: "no_answer", reason: `status ${received.status} with an incomplete success` };
    }
    return { kind: "success", transaction, network, ...(payer === undefined ? {} : { payer }) };
  }

  async #post(
    path: "/verify" | "/settle",
    { payload, requirements }: FacilitatorRequest,
  ): Promise<HttpAnswer> {
    const response = await fetch(`${this.#url}${path}`, {
      method: "POST",
      headers: { ...this.#headers, "content-type": "application/json" },
      redirect: "manual",
      body: JSON.stringify({
        x402Version: payload.x402Version,
        paymentPayload: payload,
        paymentRequirements: requirements,
      }),
      signal: AbortSignal.timeout(this.#timeoutMs),
    });
    const body = await readBoundedBody(response, MAX_ANSWER_BYTES);
    return { status: response.status, body: parseJson(body.toString("utf8")) };
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === "TimeoutError";
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? error.message;
}

function unavailable(detail: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "facilitator_unavailable",
    `The payment could not be verified, because the facilitator is not available. ${detail} Nothing was charged: try again.`,
    { ...(cause === undefined ? {} : { cause }), headers: { "retry-after": "2" } },
  );
}
