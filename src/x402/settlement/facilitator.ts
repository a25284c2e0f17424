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

export interface FacilitatorOptions {
  /** Without a trailing slash. May hold credentials. */
  readonly url: string;
  /** For one whole call, its body included. */
  readonly timeoutMs: number;
}

/** What the facilitator is asked about: a payment and the requirements it is to meet, of one protocol version. */
export interface FacilitatorRequest {
  readonly payload: PaymentPayload | PaymentPayloadV1;
  readonly requirements: PaymentRequirements | PaymentRequirementsV1;
}

export type Verification =
  | { readonly kind: "valid"; readonly payer?: string }
  /** `reason` is the facilitator's own word. */
  | { readonly kind: "invalid"; readonly reason: string };

export type SettlementAnswer =
  /** It says that it settled; whether that is so is for the caller to find out. */
  | {
      readonly kind: "success";
      readonly transaction: string;
      readonly network: string;
      readonly payer?: string;
    }
  /** It says no, which does not prove that nothing moved. */
  | { readonly kind: "refused"; readonly reason: string; readonly transaction?: string }
  /** No answer that can be understood: anything may have happened. */
  | { readonly kind: "no_answer"; readonly reason: string };

export interface Facilitator {
  /** Asks whether the payment would settle. Moves nothing. @throws GatewayError `facilitator_unavailable` */
  verify(request: FacilitatorRequest): Promise<Verification>;
  /** Asks to settle, once: a lost answer is not asked for again here. Never throws. */
  settle(request: FacilitatorRequest): Promise<SettlementAnswer>;
}

/** An answer larger than this is not a facilitator's. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** Its reasons go to the client inside a header, and clients refuse long ones. */
const MAX_REASON_LENGTH = 200;

const optionalText = z
  .string()
  .nullish()
  // Go and Rust write what they do not know as "".
  .transform((text) => text || undefined);
const optionalReason = optionalText.transform((text) => text?.slice(0, MAX_REASON_LENGTH));
/** The SDK's wire format; it does not export its schemas, and `success: "true"` must not count as success. */
const verifyAnswer = z.object({ isValid: z.boolean(), invalidReason: optionalReason, payer: optionalText });
const settleAnswer = z.object({
  success: z.boolean(),
  errorReason: optionalReason,
  payer: optionalText,
  transaction: optionalText,
  network: optionalText,
});

/**
 * Talks to an x402 facilitator: POST `/verify` and `/settle` with `{x402Version, paymentPayload, paymentRequirements}`.
 *
 * Not the SDK's `HTTPFacilitatorClient`: that one follows redirects, which would hand a signed payment to whatever
 * host an answer names, reads answers of any size, and does not tell a request that was never sent from a lost answer.
 */
export function createFacilitator({ url, timeoutMs }: FacilitatorOptions): Facilitator {
  const target = splitCredentials(url);

  async function post(
    path: "/verify" | "/settle",
    { payload, requirements }: FacilitatorRequest,
  ): Promise<Answer> {
    const response = await fetch(`${target.url}${path}`, {
      method: "POST",
      headers: { ...target.headers, "content-type": "application/json" },
      redirect: "manual",
      body: JSON.stringify({
        x402Version: payload.x402Version,
        paymentPayload: payload,
        paymentRequirements: requirements,
      }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    return { status: response.status, body: await readJson(response) };
  }

  return {
    async verify(request) {
      const { status, body } = await post("/verify", request)
        // A kept-alive socket that went stale fails once; verifying twice harms nobody.
        .catch((error: unknown) => (isTimeout(error) ? Promise.reject(error) : post("/verify", request)))
        .catch((cause: unknown) => {
          throw unavailable("It gave no answer that can be understood.", cause);
        });
      const answer = verifyAnswer.safeParse(body);
      // Some answer 4xx with the reason for a payment they refuse; a 5xx says nothing about the payment.
      if (!answer.success || status >= 500 || (status >= 300 && answer.data.isValid)) {
        throw unavailable(`It answered with status ${status} and no verdict.`);
      }
      const { isValid, invalidReason, payer } = answer.data;
      if (!isValid) return { kind: "invalid", reason: invalidReason ?? "no reason given" };
      return { kind: "valid", ...(payer === undefined ? {} : { payer }) };
    },

    async settle(request) {
      let received: Answer;
      try {
        received = await post("/settle", request);
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
    },
  };
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

async function readJson(response: Response): Promise<unknown> {
  const body = await readBoundedBody(response, MAX_ANSWER_BYTES);
  try {
    return JSON.parse(body.toString("utf8"));
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
