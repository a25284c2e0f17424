import { type ErrorCode, GatewayError } from "../../core/errors.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { PaymentRecord } from "../../core/payment.ts";
import type { JobRequest } from "../../http/request.ts";
import type { UndecidedLimits } from "../../store/contract/payment-journal.ts";
import type { Store } from "../../store/store.ts";
import type { JobRoutes } from "../jobs/job-routes.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { ConfirmedPrice, Price } from "../prices/price.ts";
import type { X402Producer } from "../producer.ts";
import {
  outcomeOfKnown,
  type PaymentOutcome,
  type PurchaseIdentity,
  queueFull,
} from "../settlement/payment-outcome.ts";
import type { Settlement } from "../settlement/settlement.ts";
import type { ExtensionEchoes } from "../wire/extensions.ts";
import type { Offer } from "../wire/offer.ts";
import type { AdoptedPayments } from "./adopted-payments.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { EarlierPayments } from "./earlier-payments.ts";
import type { Contribution, StepName, TermsCheck } from "./terms.ts";
import { paymentKey, toIntent, type Verification, type VerifiedPayment } from "./verification.ts";

export interface StepParts {
  readonly store: Pick<Store, "status">;
  readonly earlier: EarlierPayments;
  readonly adopted: AdoptedPayments;
  readonly verification: Verification;
  readonly settlement: Settlement;
  readonly producer: X402Producer;
  readonly routes: JobRoutes;
  readonly echoes: ExtensionEchoes;
  readonly undecidedLimits: UndecidedLimits;
  readonly limits: Pick<ClientLimits, "clientOf">;
}

/** A request whose payment and body could be read. */
export interface PaidRequest {
  readonly request: JobRequest;
  readonly payment: SignedPayment;
  readonly body: Uint8Array;
  /** Hash of the whole request, at a job's own route. */
  readonly requestHash: string | undefined;
  /**
   * Distinguishes this purchase from all others, because the same payment must not buy another job, request or body, or
   * have other notes.
   */
  readonly identity: PurchaseIdentity;
  /**
   * Returns the identity over the headers that a known payment is bound to, because the configuration may have changed
   * since.
   */
  readonly identityLike: (known: PurchaseIdentity) => PurchaseIdentity;
  /** Finds the price, once. @throws GatewayError */
  readonly findPrice: () => Promise<Price>;
  /** Checks the body by the current configuration. @throws GatewayError */
  readonly checkInput: () => Promise<void>;
}

/** A purchase on its way through the steps. A step sets fields that later steps read. */
export class PurchaseState {
  readonly paid: PaidRequest;
  /** The payment that an earlier request made under this name. */
  known: PaymentRecord | undefined;
  price!: Price;
  offer!: Offer;
  /** Set by the match if the payment is adopted, and otherwise by the verification. */
  verified: VerifiedPayment | undefined;
  readonly contributions: Contribution[] = [];
  headers: NonNullable<Contribution["requestMetadata"]> = [];
  confirmed!: ConfirmedPrice;

  constructor(paid: PaidRequest) {
    this.paid = paid;
  }
}

/** A step of a purchase. Its refusals come before any money moves. */
interface PurchaseStep {
  readonly name: string;
  /** Codes of the step's refusals, in their order. */
  readonly refusals: readonly ErrorCode[];
  /** @returns the outcome, if it ends the purchase @throws GatewayError */
  run(state: PurchaseState, parts: StepParts): Promise<PaymentOutcome | undefined>;
}

/**
 * The steps of a purchase, in the order that clients rely on: the first refusal that applies is the answer. docs/errors.md
 * prints them.
 */
const STEPS: readonly (PurchaseStep & { readonly name: StepName })[] = [
  {
    name: "resend",
    refusals: ["store_unavailable", "payment_replay"],
    run: findEarlier,
  },
  {
    name: "price",
    refusals: [
      "not_found",
      "query_not_allowed",
      "job_not_found",
      "api_unreachable",
      "job_paused",
      "x402_disabled",
      "price_unavailable",
      "quote_not_found",
      "quote_mismatch",
    ],
    run: findPrice,
  },
  { name: "input", refusals: ["invalid_input", "rate_limited"], run: checkInput },
  {
    name: "offer",
    refusals: [
      "payment_mismatch",
      "invalid_input",
      "rate_limited",
      "unsupported_media_type",
      "price_refused",
      "price_unavailable",
      "quote_not_found",
      "quote_mismatch",
      "quote_conflict",
    ],
    run: matchOffer,
  },
  { name: "room", refusals: ["headers_too_large", "store_unavailable", "queue_full"], run: checkRoom },
  {
    name: "verification",
    refusals: [
      "rate_limited",
      "authorization_used",
      "payment_replay",
      "payment_invalid",
      "payment_mismatch",
      "facilitator_unavailable",
      "settler_unfunded",
    ],
    run: verify,
  },
  { name: "confirmation", refusals: ["quote_not_found", "payment_mismatch"], run: confirmPrice },
  {
    name: "settlement",
    refusals: [
      "signature_replay",
      "payment_replay",
      "quote_conflict",
      "too_many_undecided",
      "too_many_open_payments",
      "payment_invalid",
      "queue_full",
      "store_full",
      "store_unavailable",
      "settlement_failed",
      "settlement_unknown",
    ],
    run: settle,
  },
];

/** Returns the steps of a purchase with the checks of parts at their places. */
export function purchaseSteps(checks: readonly TermsCheck[]): readonly PurchaseStep[] {
  return STEPS.flatMap((step) => [...checks.filter(({ before }) => before === step.name).map(stepOf), step]);
}

function stepOf(check: TermsCheck): PurchaseStep {
  return {
    name: check.name,
    refusals: check.refusals,
    async run(state, parts) {
      const { request, payment, body, requestHash, identity: job } = state.paid;
      if (check.jobs?.has(jobKeyText(job.serviceId, job.jobIndex)) === false) return undefined;
      const client = parts.limits.clientOf(request);
      try {
        const contribution = await check.run({ job, request, payment, body, requestHash, client });
        if (contribution !== undefined) state.contributions.push(contribution);
        return undefined;
      } catch (error) {
        return findMade(error, state.offer, state, parts);
      }
    },
  };
}

/**
 * If the payment, or another payment under its name, is already known, the answer is the first outcome of the known
 * payment.
 */
async function findEarlier(state: PurchaseState, parts: StepParts): Promise<PaymentOutcome | undefined> {
  const { earlier } = parts;
  const { payment } = state.paid;
  if (payment.isNew && payment.purchaseName === undefined) return undefined;
  state.known = await earlier.find(payment);
  if (state.known === undefined || !(await earlier.isFromPayer(payment, state.known))) return undefined;
  return outcomeOf(state.known, state, parts);
}

async function findPrice(state: PurchaseState, parts: StepParts): Promise<PaymentOutcome | undefined> {
  const { earlier, adopted, verification } = parts;
  const { payment, body, request } = state.paid;
  try {
    state.price = await state.paid.findPrice();
  } catch (error) {
    const mayBeAdopted = state.known === undefined && (await earlier.isSignedByPayer(payment));
    throw mayBeAdopted ? await adopted.explain(error, payment) : error;
  }
  if (state.known === undefined) return undefined;
  // The name does not authenticate the payer, so the payment is verified like any other.
  await verification.verify(payment, await state.price.match(payment, body), request);
  return outcomeOf(state.known, state, parts);
}

async function checkInput({ paid }: PurchaseState): Promise<undefined> {
  await paid.checkInput();
}

async function matchOffer(state: PurchaseState, { echoes, adopted }: StepParts): Promise<undefined> {
  const { price } = state;
  const { payment, body, identity, requestHash } = state.paid;
  echoes.check(payment.payload, identity);
  payment.requireAskedFor?.({ ...identity, body, requestHash });
  try {
    state.offer = await price.match(payment, body);
  } catch (error) {
    state.verified = await adopted.find(error, payment, { price, body });
    state.offer = state.verified.offer;
  }
}

async function checkRoom(state: PurchaseState, { producer, routes, store }: StepParts): Promise<undefined> {
  const { request, identity } = state.paid;
  state.headers = [...producer.readHeaders(request, identity), ...routes.metadataOf(request)];
  const { writable, full } = store.status();
  if (!writable) {
    throw new GatewayError(
      "store_unavailable",
      "The store is not accepting jobs. Nothing was charged: try again.",
      {
        headers: { "retry-after": "5" },
      },
    );
  }
  if (full) throw queueFull();
}

async function verify(state: PurchaseState, parts: StepParts): Promise<PaymentOutcome | undefined> {
  const { earlier, verification, adopted } = parts;
  const { price, offer } = state;
  const { payment, body, request } = state.paid;
  // This lookup runs while the payment is verified.
  const noLoss = earlier.requireNoLoss(payment, offer);
  noLoss.catch(() => undefined);
  if (state.verified === undefined) {
    try {
      state.verified = await verification.verify(payment, offer, request);
    } catch (refusal) {
      try {
        return await findMade(refusal, offer, state, parts);
      } catch (error) {
        state.verified = await adopted.find(error, payment, { price, body, offer });
      }
    }
  }
  await noLoss;
  return undefined;
}

async function confirmPrice(state: PurchaseState): Promise<undefined> {
  // The price may have ended since.
  state.confirmed = await state.price.confirm(state.offer);
}

async function settle(state: PurchaseState, parts: StepParts): Promise<PaymentOutcome> {
  const { producer, settlement, undecidedLimits } = parts;
  const { offer, contributions, confirmed, headers } = state;
  const { request, payment, body, identity } = state.paid;
  const nonces = [...contributions, confirmed].flatMap(({ nonce }) => nonce ?? []);
  const verified = state.verified as VerifiedPayment;
  const call = producer.jobCall({
    offer,
    payment,
    body,
    requestMetadata: [...headers, ...contributions.flatMap(({ requestMetadata = [] }) => requestMetadata)],
    quoteDigest: confirmed.digest,
    metadata: Object.assign({}, ...contributions.map(({ metadata }) => metadata)),
  });
  const { funds, fundsReadAt, paidIn } = verified;
  const { maxUndecided, maxOpenPerPayer } = undecidedLimits;
  const fundsAgeMs = Math.ceil(performance.now() - fundsReadAt);
  return settlement.settle(toIntent({ payment, identity, confirmed, nonces }, verified), call, {
    requestId: request.id,
    limits: {
      maxUndecided,
      maxOpenPerPayer,
      ...(funds === undefined ? {} : { funds: funds.toString(), fundsAgeMs }),
    },
    paidIn,
    nonces,
    notTaken: payment.method.notTaken,
  });
}

/** Returns the outcome of the same purchase if another replica has made it in the meantime. @throws the refusal otherwise */
async function findMade(
  error: unknown,
  offer: Offer | undefined,
  state: PurchaseState,
  parts: StepParts,
): Promise<PaymentOutcome> {
  const { earlier } = parts;
  const { payment } = state.paid;
  const made = offer && (await earlier.find(payment, paymentKey(payment, offer)));
  if (made === undefined) throw error;
  if (await earlier.isFromPayer(payment, made)) return outcomeOf(made, state, parts);
  throw made.key.nonce === payment.nonce ? asReplay(error) : error;
}

async function outcomeOf(
  record: PaymentRecord,
  { paid }: PurchaseState,
  { settlement }: StepParts,
): Promise<PaymentOutcome> {
  const outcome = outcomeOfKnown(record, paid.identityLike(record));
  const latest = outcome.kind === "undecided" ? await settlement.retry(record) : outcome;
  return { ...latest, replayed: true };
}

/**
 * The chain shows the authorization as used, and the journal has a payment with it. So the authorization came earlier
 * with another signature.
 */
function asReplay(error: unknown): unknown {
  if (!(error instanceof GatewayError) || error.code !== "authorization_used") return error;
  return new GatewayError(
    "payment_replay",
    "This authorization was sent before, with another signature. Send exactly the earlier request again for its outcome, or sign a new payment.",
    { details: { charged: "unknown" } },
  );
}
