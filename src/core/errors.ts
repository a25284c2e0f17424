/** Meaning of an error code. */
interface ErrorKind {
  readonly status: number;
  /** The same request can succeed later, unchanged. */
  readonly retryable: boolean;
  /** Counters in `GET /x402/stats` for refusals of paid requests. Undefined if they are not counted. */
  readonly counters?: readonly string[];
}

/**
 * Every error code that jobgate answers over HTTP. docs/errors.md explains each to callers and operators; a test
 * compares the two.
 */
export const ERROR_KINDS = {
  not_found: { status: 404, retryable: false },
  method_not_allowed: { status: 405, retryable: false },
  bad_request: { status: 400, retryable: false },
  query_not_allowed: { status: 400, retryable: false },
  upgrade_not_supported: { status: 501, retryable: false },
  request_timeout: { status: 408, retryable: true },
  body_too_large: { status: 413, retryable: false },
  too_many_uploads: { status: 503, retryable: true },
  headers_too_large: { status: 431, retryable: false },
  unauthorized: { status: 401, retryable: false },
  sign_in_required: { status: 402, retryable: false },
  call_not_found: { status: 404, retryable: false },
  result_not_ready: { status: 404, retryable: true },
  call_failed: { status: 410, retryable: false },
  call_expired: { status: 410, retryable: false },
  result_not_kept: { status: 410, retryable: false },
  invalid_input: { status: 422, retryable: false },
  unsupported_media_type: { status: 415, retryable: false },
  job_not_found: { status: 404, retryable: false, counters: ["job_not_found"] },
  x402_disabled: { status: 403, retryable: false, counters: ["policy_denied"] },
  payment_required: { status: 402, retryable: false, counters: ["payment_required"] },
  payment_mismatch: { status: 402, retryable: false, counters: ["payment_invalid"] },
  payment_invalid: { status: 402, retryable: false, counters: ["payment_invalid"] },
  settlement_failed: { status: 402, retryable: false, counters: ["settlement_failed"] },
  settlement_unknown: { status: 503, retryable: true, counters: ["settlement_unknown"] },
  invalid_payment: { status: 400, retryable: false, counters: ["payment_invalid"] },
  malformed_credential: { status: 402, retryable: false, counters: ["payment_invalid"] },
  invalid_callback_url: { status: 400, retryable: false, counters: ["payment_invalid"] },
  missing_payment_identifier: { status: 400, retryable: false, counters: ["payment_invalid"] },
  payment_identifier_conflict: { status: 409, retryable: false, counters: ["payment_replayed"] },
  payment_replay: { status: 409, retryable: false, counters: ["payment_replayed"] },
  authorization_used: { status: 409, retryable: false, counters: ["payment_replayed"] },
  quote_not_found: { status: 404, retryable: false, counters: ["payment_invalid"] },
  quote_conflict: { status: 409, retryable: false, counters: ["payment_replayed"] },
  quote_mismatch: { status: 403, retryable: false, counters: ["payment_invalid"] },
  missing_caller: { status: 400, retryable: false, counters: ["policy_denied"] },
  invalid_caller: { status: 400, retryable: false, counters: ["policy_denied"] },
  missing_signature: { status: 400, retryable: false, counters: ["policy_denied"] },
  invalid_signature: { status: 400, retryable: false, counters: ["policy_denied"] },
  missing_signature_nonce: { status: 400, retryable: false, counters: ["policy_denied"] },
  invalid_signature_nonce: { status: 400, retryable: false, counters: ["policy_denied"] },
  missing_signature_expiry: { status: 400, retryable: false, counters: ["policy_denied"] },
  invalid_signature_expiry: { status: 400, retryable: false, counters: ["policy_denied"] },
  signature_mismatch: { status: 403, retryable: false, counters: ["policy_denied"] },
  signature_expired: { status: 403, retryable: false, counters: ["policy_denied"] },
  signature_replay: { status: 409, retryable: false, counters: ["policy_denied", "replay_denied"] },
  caller_not_permitted: { status: 403, retryable: false, counters: ["policy_denied"] },
  permission_check_failed: { status: 503, retryable: true, counters: ["policy_error"] },
  duplicate_conflict: { status: 409, retryable: false },
  rate_limited: { status: 429, retryable: true },
  too_many_waits: { status: 429, retryable: true },
  job_paused: { status: 503, retryable: true },
  queue_full: { status: 503, retryable: true, counters: ["enqueue_failed"] },
  store_full: { status: 503, retryable: true },
  too_many_undecided: { status: 503, retryable: true, counters: ["enqueue_failed"] },
  too_many_open_payments: { status: 429, retryable: true, counters: ["enqueue_failed"] },
  store_unavailable: { status: 503, retryable: true, counters: ["enqueue_failed"] },
  price_refused: { status: 422, retryable: false },
  price_unavailable: { status: 503, retryable: true },
  facilitator_unavailable: { status: 503, retryable: true },
  settler_unfunded: { status: 503, retryable: true },
  api_busy: { status: 503, retryable: true },
  api_unreachable: { status: 503, retryable: true },
  api_refused: { status: 502, retryable: false },
  api_timeout: { status: 504, retryable: false },
  api_broke_off: { status: 502, retryable: false },
  result_too_large: { status: 502, retryable: false },
  invalid_charge: { status: 502, retryable: false },
  outcome_unknown: { status: 502, retryable: false },
  shutting_down: { status: 503, retryable: true },
  internal_error: { status: 500, retryable: true },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof ERROR_KINDS;

/**
 * A refusal, thrown where the fact is known. Only the servers turn it into an answer. The message is a sentence for the
 * caller that says what was expected and what to do. It never contains a secret.
 */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly status: number;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      readonly cause?: unknown;
      /** More fields of the JSON answer, beside `error` and `code`. */
      readonly details?: Readonly<Record<string, unknown>>;
      /** More headers of the HTTP answer. */
      readonly headers?: Readonly<Record<string, string>>;
      /** Default: the status of the code. */
      readonly status?: number;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
    this.status = options.status ?? ERROR_KINDS[code].status;
  }

  get retryable(): boolean {
    return ERROR_KINDS[this.code].retryable;
  }
}

/**
 * The outcome of a change is unknown and could not be found out in time. The database went away while it committed the
 * change, and did not come back. Not a GatewayError, because no answer may claim that nothing has happened.
 */
export class UnknownOutcomeError extends Error {
  override readonly name = "UnknownOutcomeError";
}

/**
 * Returns the refusal that answers an error. The caller logs an error that is not a GatewayError, because it is a bug
 * in jobgate (`internal_error`) or a change with an unknown outcome.
 */
export function refusalOf(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  if (error instanceof UnknownOutcomeError) {
    return new GatewayError(
      "store_unavailable",
      "It is not known whether the store has this change. Try again later.",
      { cause: error, headers: { "retry-after": "5" } },
    );
  }
  return new GatewayError("internal_error", "Something went wrong inside jobgate.", { cause: error });
}
