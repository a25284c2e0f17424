import { parsePaymentPayload } from "@x402/core/schemas";
import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper, parseJson } from "../../core/objects.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import { RateLimit, rateLimited } from "../../http/limits.ts";
import { bearerToken, type HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { MethodHandlers, RouteTable } from "../../http/routes.ts";
import type { HttpServer } from "../../http/server.ts";
import {
  DUPLICATE_SETTLEMENT,
  type Facilitator,
  type FacilitatorRequest,
  type SettlementAnswer,
  type Verification,
} from "../../x402/facilitators/facilitator.ts";
import type { Versions } from "../../x402/wire/version.ts";
import type { FacilitatorServiceConfig } from "./config.ts";

/** A request holds a payment of at most 32 KiB, and requirements that can contain a job's schema. */
const MAX_BODY_BYTES = 256 * 1024;
const MAX_NESTING = 32;
/** Requests of one seller in progress. A payment is settled after it was verified, so a settlement finds room. */
const MAX_IN_PROGRESS = { verify: 256, settle: 1_024 };
/** Wrong tokens that one client may send in a window. */
const MAX_WRONG_TOKENS = 20;
const WRONG_TOKEN_WINDOW_SECS = 10;
/** Successes that are remembered as reported, for longer than a verified payment can wait for its settlement. */
const MAX_TOLD = 100_000;

type Operation = keyof typeof MAX_IN_PROGRESS;

/**
 * Verifies and settles for other sellers, as a remote facilitator does: GET `/supported`, POST `/verify` and `/settle`.
 * Every failure is an answer that this version's own client takes for an unavailable facilitator.
 */
export class FacilitatorService implements BackgroundService {
  #sellers: FacilitatorServiceConfig["tokens"];
  readonly #facilitator: () => Facilitator;
  readonly #versions: Versions;
  readonly #server: HttpServer;
  readonly #logger: Logger;
  readonly #telemetry: Telemetry;
  readonly #maxInProgress: Readonly<typeof MAX_IN_PROGRESS>;
  readonly #wrongTokens = new RateLimit(WRONG_TOKEN_WINDOW_SECS);
  /** Successes that were reported to a seller. */
  readonly #told = boundedCache<string, true>(MAX_TOLD);
  /** Number of requests, by operation and seller. */
  readonly #inProgress = new Map<string, number>();
  readonly #routes: ReadonlyMap<string, MethodHandlers>;

  constructor(parts: {
    readonly config: FacilitatorServiceConfig;
    /**
     * Returns the facilitator that settles the payments, once the service starts.
     * @throws Error if there is none
     */
    readonly facilitator: () => Facilitator;
    /** Versions of x402 that sellers may send. */
    readonly versions: Versions;
    readonly server: HttpServer;
    readonly logger: Logger;
    readonly telemetry?: Telemetry;
    readonly maxInProgress?: Readonly<typeof MAX_IN_PROGRESS>;
  }) {
    this.#sellers = parts.config.tokens;
    this.#facilitator = parts.facilitator;
    this.#versions = parts.versions;
    this.#server = parts.server;
    this.#logger = parts.logger;
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
    this.#maxInProgress = parts.maxInProgress ?? MAX_IN_PROGRESS;
    this.#routes = new Map<string, MethodHandlers>([
      ["/supported", { GET: (request) => this.#supported(request) }],
      ["/verify", { POST: (request) => this.#ask("verify", request, (asked) => this.#verify(asked)) }],
      [
        "/settle",
        {
          POST: (request) =>
            this.#ask("settle", request, (asked, seller) => this.#settle(asked, { request, seller })),
        },
      ],
    ]);
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  /** @throws Error if nothing settles the payments */
  async start(): Promise<void> {
    this.#facilitator();
    await this.#server.mount(this.#find, { listener: "facilitator" });
  }

  /** Accepts the tokens of these sellers from now on. */
  reload({ tokens }: FacilitatorServiceConfig): void {
    this.#sellers = tokens;
  }

  /** Takes no new requests; resolves once the current requests are answered. */
  stop(): Promise<void> {
    return this.#server.unmount(this.#find);
  }

  readonly #find: RouteTable = (path) => this.#routes.get(path);

  async #supported(request: HttpRequest): Promise<HttpResponse> {
    await this.#authenticate(request);
    return jsonResponse(200, await this.#facilitator().supported());
  }

  async #ask(
    operation: Operation,
    request: HttpRequest,
    answer: (asked: FacilitatorRequest, seller: string) => Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    const seller = await this.#authenticate(request);
    return this.#inTurn(operation, seller, async () =>
      answer(readRequest(await request.readBody(MAX_BODY_BYTES), this.#versions), seller),
    );
  }

  async #verify(asked: FacilitatorRequest): Promise<HttpResponse> {
    return jsonResponse(200, toVerifyAnswer(await this.#facilitator().verify(asked)));
  }

  async #settle(
    asked: FacilitatorRequest,
    { request, seller }: { readonly request: HttpRequest; readonly seller: string },
  ): Promise<HttpResponse> {
    const answer = await this.#facilitator().settle(asked);
    const { kind: outcome } = answer;
    const transaction = outcome === "no_answer" ? undefined : answer.transaction;
    this.#logger.info({ seller, outcome, transaction }, "settlement for another seller");
    this.#telemetry.count("jobgate_facilitator_service_settlements_total", { seller, outcome });
    if (answer.kind === "no_answer") {
      throw new GatewayError(
        "settlement_unknown",
        "The settlement is undecided: ask for the same payment again. It is sent once, however often you ask.",
        { details: { charged: "unknown" }, headers: { "retry-after": "2" } },
      );
    }
    if (answer.kind === "success") return this.#tellOnce(answer, asked, request);
    return jsonResponse(200, toSettleAnswer(answer, asked));
  }

  /**
   * Reports a success to one request, and refuses the other requests, because a seller without a journal serves its
   * buyer at each report. A request whose client has left gets no report.
   */
  #tellOnce(
    success: Extract<SettlementAnswer, { kind: "success" }>,
    asked: FacilitatorRequest,
    { closed }: HttpRequest,
  ): HttpResponse {
    const { transaction } = success;
    const key = `${asked.requirements.network} ${transaction}`;
    if (this.#told.has(key)) {
      const refused = { kind: "refused", reason: DUPLICATE_SETTLEMENT, transaction } as const;
      return jsonResponse(200, toSettleAnswer(refused, asked));
    }
    if (!closed.aborted) this.#told.set(key, true);
    return jsonResponse(200, toSettleAnswer(success, asked));
  }

  /** @returns the seller's name @throws GatewayError `unauthorized`, `rate_limited` */
  async #authenticate(request: HttpRequest): Promise<string> {
    const sent = bearerToken(request);
    // The token is compared with the token of each seller, so that the time does not show whose token is nearly right.
    const [seller] = this.#sellers.filter(
      ({ token }) => sent !== undefined && equalInConstantTime(sent, token),
    );
    if (seller !== undefined) return seller.name;
    this.#wrongTokens.count(request.remoteAddress, MAX_WRONG_TOKENS, "Too many wrong tokens");
    throw new GatewayError("unauthorized", "A seller's token is required: Authorization: Bearer <token>.", {
      headers: { "www-authenticate": "Bearer" },
    });
  }

  /** @throws GatewayError `rate_limited` */
  async #inTurn<Result>(operation: Operation, seller: string, work: () => Promise<Result>): Promise<Result> {
    const key = `${operation} ${seller}`;
    const running = this.#inProgress.get(key) ?? 0;
    if (running >= this.#maxInProgress[operation])
      throw rateLimited(`Too many requests to ${operation} at once`, 1_000);
    this.#inProgress.set(key, running + 1);
    try {
      return await work();
    } finally {
      this.#inProgress.set(key, (this.#inProgress.get(key) ?? 1) - 1);
    }
  }
}

/** @throws GatewayError `bad_request` */
function readRequest(body: Uint8Array, versions: Versions): FacilitatorRequest {
  const json = parseJson(Buffer.from(body).toString());
  if (typeof json !== "object" || json === null || isNestedDeeper(json, MAX_NESTING)) {
    throw malformed(`the body is not a JSON object, or nested more than ${MAX_NESTING} levels deep`);
  }
  const { x402Version, paymentPayload, paymentRequirements } = json as Readonly<Record<string, unknown>>;
  const payload = parsePaymentPayload(paymentPayload);
  if (!payload.success) throw malformed("paymentPayload is not a payment");
  if (x402Version !== payload.data.x402Version) throw malformed("x402Version is not the payment's");
  const version = versions.find(x402Version);
  if (version === undefined) throw malformed(`x402Version is ${x402Version}, which is not settled here`);
  if (!version.isRequirements(paymentRequirements))
    throw malformed(`paymentRequirements are not requirements of version ${x402Version}`);
  return { payload: paymentPayload, requirements: paymentRequirements } as FacilitatorRequest;
}

function malformed(what: string): GatewayError {
  return new GatewayError(
    "bad_request",
    `The request is malformed: ${what}. Send x402Version, paymentPayload and paymentRequirements.`,
  );
}

function toVerifyAnswer(verification: Verification) {
  if (verification.kind === "invalid") return { isValid: false, invalidReason: verification.reason };
  return { isValid: true, payer: verification.payer };
}

function toSettleAnswer(
  answer: Exclude<SettlementAnswer, { kind: "no_answer" }>,
  { requirements }: FacilitatorRequest,
) {
  const { network } = requirements;
  if (answer.kind === "success") {
    const { transaction, payer } = answer;
    return { success: true, payer, transaction, network };
  }
  return { success: false, errorReason: answer.reason, transaction: answer.transaction ?? "", network };
}
