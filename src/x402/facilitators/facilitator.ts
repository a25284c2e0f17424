import type { Logger } from "pino";
import * as z from "zod";
import { boundedCache } from "../../core/bounded-cache.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { parseJson } from "../../core/objects.ts";
import { measure, type Telemetry } from "../../core/telemetry.ts";
import type { Required } from "../wire/version.ts";

/** Verifies and settles payments: a remote server, or a part of this process. */
export interface Facilitator {
  /**
   * Name in the journal, logs and metrics: host and path of a remote facilitator, or a word for a facilitator in this
   * process. Never contains credentials.
   */
  readonly name: string;
  /**
   * Verifies that the payment would settle. Moves no money.
   * @throws GatewayError `facilitator_unavailable`, `settler_unfunded`
   */
  verify(request: FacilitatorRequest): Promise<Verification>;
  /** Requests settlement once, without repeating a request whose answer was lost. Never rejects. */
  settle(request: FacilitatorRequest): Promise<SettlementAnswer>;
  /** @throws Error that completes "the facilitator …"; {@link RateLimited} when there were too many requests */
  supported(): Promise<Supported>;
}

export type FacilitatorRequest = Required;

/** Verdict on a payment. `reason` is the facilitator's text. */
export type Verification =
  | { readonly kind: "valid"; readonly payer?: string | undefined }
  | { readonly kind: "invalid"; readonly reason: string };

export type SettlementAnswer =
  /** The facilitator claims that it settled. The caller has to verify the claim. */
  (
    | {
        readonly kind: "success";
        readonly transaction: string;
        /** CAIP-2. */
        readonly network: string;
        readonly payer?: string | undefined;
        /** Token units that moved, if the facilitator names them. */
        readonly amount?: string | undefined;
        /** Set only by a facilitator in this process. */
        readonly blockNumber?: string | undefined;
      }
    /** The facilitator refused, which does not prove that no money moved. */
    | { readonly kind: "refused"; readonly reason: string; readonly transaction?: string | undefined }
    /** There was no usable answer, so the payment may have been settled. */
    | { readonly kind: "no_answer"; readonly reason: string }
  ) & { readonly extensionResponses?: ExtensionResponses | undefined };

/**
 * Reason with which a facilitator refuses a payment whose settlement it has already reported, or that it is settling
 * now.
 */
export const DUPLICATE_SETTLEMENT = "duplicate_settlement";

/** Kind of payment. `network` is CAIP-2, a pattern such as `eip155:*` for all EVM chains, or a name of another version of x402. */
export interface PaymentKind {
  readonly x402Version: number;
  readonly scheme: string;
  readonly network: string;
}

/** `extra` fields that a facilitator lists for a kind of payment, such as the settling address. */
export type KindExtra = Readonly<Record<string, unknown>>;

/** Returns true if a facilitator lists a network, by its CAIP-2 name or by the pattern of all networks of its kind. */
export function takesNetwork(listed: readonly string[], network: string): boolean {
  return listed.includes(network) || listed.includes(`${network.split(":", 1)[0]}:*`);
}

/** Answer of `GET /supported`. */
export interface Supported {
  readonly kinds: readonly (PaymentKind & { readonly extra?: KindExtra })[];
  readonly extensions: readonly string[];
  /** Addresses that send transactions, by CAIP-2 network or pattern. */
  readonly signers: Readonly<Record<string, readonly string[]>>;
}

/** The facilitator refuses requests because there were too many. */
export class RateLimited extends Error {
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super("answers with status 429; expected fewer requests");
    this.retryAfterMs = retryAfterMs;
  }
}

/** Counts and traces one request to a facilitator. */
export function measureRequest<T extends { readonly kind: string }>(
  telemetry: Telemetry,
  facilitator: string,
  operation: "verify" | "settle",
  ask: () => Promise<T>,
): Promise<T> {
  return measure(
    telemetry,
    {
      histogram: "jobgate_facilitator_request_duration_seconds",
      labels: (result) => ({
        facilitator,
        operation,
        outcome: "value" in result ? result.value.kind : "no_answer",
      }),
      span: `facilitator.${operation}`,
    },
    ask,
  );
}

/** A facilitator's verdict on the extensions of a payment, from its header `EXTENSION-RESPONSES`, which is JSON in base64. */
export interface ExtensionResponses {
  /** Value of the header, for the client. */
  readonly header: string;
  readonly rejected: readonly { readonly extension: string; readonly reason: string }[];
}

/** Longest header that is passed on. */
const MAX_LENGTH = 4_096;
/** Longest text of a facilitator in a log. */
const MAX_LOGGED = 200;

/** Bound on the logged reasons that are remembered. */
const MAX_REMEMBERED = 1_000;

const responses = z.record(
  z.string(),
  z.looseObject({ status: z.string().optional(), rejectedReason: z.string().optional() }),
);

/** Returns undefined for a header that is missing, too long or malformed, because the header is only informative. */
export function readExtensionResponses(
  header: string | string[] | undefined,
): ExtensionResponses | undefined {
  if (typeof header !== "string" || header.length > MAX_LENGTH || !/^[\w+/-]+={0,2}$/.test(header)) {
    return undefined;
  }
  const parsed = responses.safeParse(parseJson(Buffer.from(header, "base64").toString()));
  if (!parsed.success) return undefined;
  const rejected = Object.entries(parsed.data).flatMap(([extension, { status, rejectedReason }]) =>
    status === "rejected"
      ? {
          extension: extension.slice(0, MAX_LOGGED),
          reason: rejectedReason?.slice(0, MAX_LOGGED) ?? "no reason given",
        }
      : [],
  );
  return { header, rejected };
}

/** Logs which extensions of its payments the facilitator rejected. */
export class ExtensionRejections {
  readonly #logger: Logger;
  readonly #logged = boundedCache<string, true>(MAX_REMEMBERED);

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Logs each reason once for each job, because it stays the same until the job's description changes. */
  log({ serviceId, jobIndex }: JobKey, { rejected }: ExtensionResponses): void {
    for (const { extension, reason } of rejected) {
      const job = jobKeyText(serviceId, jobIndex);
      const key = `${job} ${extension} ${reason}`;
      if (this.#logged.has(key)) continue;
      this.#logged.set(key, true);
      this.#logger.warn({ job, extension, reason }, "the facilitator rejected an extension of a payment");
    }
  }
}
