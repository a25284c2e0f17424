import { API_MUTANTS } from "./api-mutants.ts";
import { CHANNEL_MUTANTS } from "./channel-mutants.ts";
import { DELIVERY_MUTANTS } from "./delivery-mutants.ts";
import type { WorldMutant } from "./mutant.ts";
import { ORDER_MUTANTS } from "./order-mutants.ts";
import { PRICE_MUTANTS } from "./price-mutants.ts";
import { PROTOCOL_MUTANTS } from "./protocol-mutants.ts";
import { QUOTE_MUTANTS } from "./quote-mutants.ts";
import { SETTLER_MUTANTS } from "./settler-mutants.ts";
import { SOLANA_MUTANTS } from "./solana-mutants.ts";

const SETTLEMENT = "x402/settlement/settlement.ts";
const EVIDENCE = "x402/settlement/evm-evidence.ts";
const OUTCOME = "x402/settlement/payment-outcome.ts";
const PAYMENTS = "store/sqlite/operations/payments.ts";
const ROWS = "store/sqlite/operations/payment-rows.ts";
const LEASES = "store/rules/leases.ts";
const CHARGES = "store/rules/charges.ts";
const ATTEMPTS = "x402/settlement/settlement-attempts.ts";
const INTAKE = "store/machine/intake.ts";
const METERED = "store/machine/deferred.ts";
const CALLS = "store/machine/call-row.ts";
const CALL_ROWS = "store/sqlite/operations/call-rows.ts";

/** Guards of the core that are missed in some world: with each seed, clients, faults and crashes are others. */
export const CORE_MUTANTS: readonly WorldMutant[] = [
  {
    name: "the newest block counts as confirmed",
    parts: [],
    seed: 165,
    ...{ file: EVIDENCE, from: "head - (this.#confirmations - 1n)", to: "head" },
  },
  {
    name: "a payment below the price is taken",
    seed: 16,
    file: "x402/methods/eip3009.ts",
    ...{ from: "value === BigInt(amount)", to: "value <= BigInt(amount)" },
  },
  {
    name: "the job of a payment that is not settled runs",
    parts: [],
    seed: 37,
    file: PAYMENTS,
    ...{ from: 'beginsReady(intent) ? "ready" : "held"', to: '"ready"' },
  },
  {
    name: "the job of a settled payment stays held",
    parts: [],
    seed: 55,
    ...{ file: ROWS, from: "this.#queueCall.run([at, call_id]);", to: "" },
  },
  {
    name: "the job of a failed payment stays in the queue",
    parts: [],
    seed: 57,
    ...{ file: ROWS, from: "this.#deleteHeldCall.run([call_id]);", to: "" },
  },
  {
    name: "an earlier settlement of this process counts as another's",
    parts: [],
    seed: 57,
    ...{ file: SETTLEMENT, from: "this.#unasked.delete(record.callId);", to: "" },
  },
  {
    name: "a settlement before a restart counts as another's",
    parts: [],
    seed: 18,
    ...{ file: SETTLEMENT, from: "this.#unasked.has(callId);", to: "true;" },
  },
  {
    name: "a yes that the chain does not show counts",
    parts: [],
    seed: 18,
    file: ATTEMPTS,
    ...{
      from: "success === undefined || this.#parts.evidence.isRequired(payment.key)",
      to: "success === undefined",
    },
  },
  {
    name: "a charge is accepted although nothing is settled",
    parts: [],
    seed: 18,
    ...{
      file: SETTLEMENT,
      from: "if (!isUnused(found)) return this.#decide(record, found);",
      to: 'return this.#recorder.decide(record, { kind: "paid", transaction: "0x" });',
    },
  },
  {
    name: "an undecided payment is told as failed",
    parts: [],
    seed: 120,
    file: "x402/purchase/purchase.ts",
    from: "switch (outcome.kind) {",
    to: 'switch (outcome.kind === "undecided" ? "failed" : outcome.kind) {',
  },
  {
    name: "a resent payment is not looked up",
    parts: [],
    seed: 53,
    file: "x402/purchase/steps.ts",
    ...{ from: "state.known = await earlier.find(payment);", to: "state.known = undefined;" },
  },
  {
    name: "nobody looks at undecided payments",
    parts: [],
    seed: 1,
    file: "x402/settlement/reconciler.ts",
    ...{ from: "const listed = await this.#intents.next();", to: "const listed: UndecidedPayment[] = [];" },
  },
  {
    name: "nobody collects charges",
    parts: [],
    seed: 14,
    file: "x402/settlement/charges.ts",
    ...{
      from: "for (const payment of await this.#settling.next()) {",
      to: "for (const payment of (await this.#settling.next()).slice(0, 0)) {",
    },
  },
  {
    name: "a lease that ran out still holds",
    parts: ["long work"],
    seed: 14,
    ...{ file: LEASES, from: " && (call.visible_at ?? 0) > now;", to: ";" },
  },
  {
    name: "a lease of an earlier delivery still holds",
    parts: ["long work"],
    seed: 68,
    ...{ file: LEASES, from: "call.lease_token === leaseToken && ", to: "" },
  },
  {
    name: "leases that ran out stay out",
    parts: [],
    seed: 31,
    ...{ file: CALLS, from: 'state === "leased" || state === "delayed"', to: 'state === "delayed"' },
  },
  {
    name: "a JobCall that has used up its attempts stays in the queue",
    parts: ["long work"],
    seed: 86,
    ...{ file: CALLS, from: "if (isUsedUp(row, maxAttempts)) {", to: "if (now < 0) {" },
  },
  {
    name: "an acked JobCall stays in the queue",
    parts: [],
    seed: 55,
    ...{ file: CALL_ROWS, from: "this.#delete(finished.map(({ row }) => row.call_id));", to: "" },
  },
  {
    name: "an acked JobCall leaves no trace",
    parts: [],
    seed: 37,
    ...{
      file: CALL_ROWS,
      from: "this.#insertAcked.run([JSON.stringify(",
      to: "JSON.stringify([JSON.stringify(",
    },
  },
  {
    name: "a runner charges more than the ceiling",
    parts: [],
    seed: 45,
    ...{
      file: CHARGES,
      from: "if (BigInt(charge.units) <= BigInt(ceiling)) return undefined;",
      to: "return undefined;",
    },
  },
  {
    name: "a charge of nothing is settled",
    parts: [],
    seed: 14,
    ...{ file: CHARGES, from: 'amount === "0" ? "released" : "settling"', to: '"settling"' },
  },
  {
    name: "a charge of less than the ceiling is settled at the ceiling",
    parts: [],
    seed: 83,
    ...{ file: OUTCOME, from: "isPartial(charge) ? { ...required, amount } : required", to: "required" },
  },
  {
    name: "a request has the outcome of another body",
    parts: ["a token without a chain"],
    seed: 18,
    file: "x402/settlement/payments-in-progress.ts",
    ...{ from: "others.find((other) => buysTheSame(other.purchase, purchase));", to: "others[0];" },
  },
  {
    name: "a claim leases nothing",
    parts: ["long work"],
    seed: 84,
    file: "store/sqlite/operations/claims.ts",
    ...{ from: "lease.run([leaseExpiresAt, claim.subscriber, leases, claim.now]);", to: "" },
  },
  {
    name: "a job that failed is charged",
    parts: [],
    seed: 83,
    ...{
      file: METERED,
      from: 'event: { kind: "release", reason }',
      to: 'event: { kind: "charge", amount: payment.amount }',
    },
  },
  {
    name: "a job that is charged after it ran is charged half",
    parts: ["jobs that are charged after"],
    seed: 14,
    file: METERED,
    ...{
      from: "event: chargeEvent(charge)",
      to: 'event: chargeEvent(payment.charge === "after" ? String(BigInt(charge) / 2n) : charge)',
    },
  },
  {
    name: "a reported charge counts twice as a payment ends",
    seed: 57,
    ...{
      file: CHARGES,
      from: "String(reported > least ? reported : least)",
      to: "String(2n * reported + least)",
    },
  },
  {
    name: "a job that does not run is charged as its payment ends",
    parts: ["jobs that are charged after"],
    seed: 11,
    ...{ file: CHARGES, from: ' || state !== "leased" || (visible_at ?? 0) <= now', to: "" },
  },
  {
    name: "a job is charged only once its payment has ended",
    seed: 57,
    file: "x402/settlement/charges.ts",
    ...{ from: "nowSecs + this.#settleMarginSecs", to: "nowSecs" },
  },
  {
    name: "a webhook that is not authentic starts a job",
    parts: ["webhooks"],
    seed: 14,
    file: "webhooks/route.ts",
    ...{
      from: "if (authentic === undefined) throw unauthorized(this.#endpoint.auth);",
      to: "if (!authentic) return;",
    },
  },
  {
    name: "a repeated webhook starts another job",
    parts: ["webhooks"],
    seed: 15,
    ...{
      file: INTAKE,
      from: "if (first === undefined) return undefined;",
      to: "if (first !== null) return undefined;",
    },
  },
  {
    name: "another webhook with an ID that was seen is taken for the first",
    parts: ["webhooks"],
    seed: 44,
    ...{ file: INTAKE, from: "found.every(({ body_hash }) => body_hash === bodyHash)", to: "bodyHash" },
  },
  {
    name: "a webhook that was overheard starts another job under another ID",
    parts: ["webhooks"],
    seed: 37,
    ...{ file: "webhooks/dedupe.ts", from: "identifies: scheme.signsBody", to: "identifies: false" },
  },
  {
    name: "a caller who is not permitted buys a restricted job",
    parts: ["restricted jobs"],
    seed: 14,
    ...{ file: "parts/callers/caller-chain.ts", from: "return permitted;", to: "return true;" },
  },
  {
    name: "a caller's signature is not checked",
    parts: ["restricted jobs"],
    seed: 55,
    file: "parts/callers/caller-auth.ts",
    ...{ from: "if ((await recoverSigner(hash, signature)) !== caller) {", to: "if (hash === signature) {" },
  },
  {
    name: "payments of one purchase are told apart",
    parts: ["payment identifiers"],
    seed: 55,
    file: "x402/purchase/checkout.ts",
    ...{ from: "      purchaseName,\n", to: "      purchaseName: undefined,\n" },
  },
  {
    name: "a facilitator's no counts where no chain can be asked",
    parts: ["a token without a chain"],
    seed: 37,
    ...{
      file: ATTEMPTS,
      from: '{ kind: "open", reason: answer.kind };',
      to: '{ kind: "not_paid", reason: answer.kind };',
    },
  },
  {
    name: "a payment whose chain cannot be asked is given up at once",
    parts: ["a token without a chain"],
    seed: 18,
    ...{ file: SETTLEMENT, from: "if (clock() < record.validBefore * 1000) {", to: "if (clock() < 0) {" },
  },
];

/** Guards of parts that are missed in some world. */
export const PART_MUTANTS: readonly WorldMutant[] = [
  ...SETTLER_MUTANTS,
  ...DELIVERY_MUTANTS,
  ...PROTOCOL_MUTANTS,
  ...API_MUTANTS,
  ...PRICE_MUTANTS,
  ...QUOTE_MUTANTS,
  ...SOLANA_MUTANTS,
  ...CHANNEL_MUTANTS,
  ...ORDER_MUTANTS,
];

export const WORLD_MUTANTS: readonly WorldMutant[] = [...CORE_MUTANTS, ...PART_MUTANTS];
