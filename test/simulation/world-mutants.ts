import type { Mutant } from "./bundle-gateway.ts";

const SETTLEMENT = "x402/settlement/settlement.ts";
const EVIDENCE = "x402/settlement/chain-evidence.ts";
const OUTCOME = "x402/settlement/payment-outcome.ts";
const PAYMENTS = "store/sqlite/operations/payments.ts";
const LEASES = "store/rules/leases.ts";
const CHARGES = "store/rules/charges.ts";
const CALLS = "store/sqlite/operations/job-calls.ts";

/** Guards that are missed in some world: with each seed, clients, faults and crashes are others. */
export const WORLD_MUTANTS: readonly (Mutant & { readonly name: string })[] = [
  {
    name: "the newest block counts as confirmed",
    ...{ file: EVIDENCE, from: "head - (token.confirmations - 1n)", to: "head" },
  },
  {
    name: "a payment below the price is taken",
    file: "x402/wire/match-offer.ts",
    ...{ from: "value === BigInt(amount);", to: "value <= BigInt(amount);" },
  },
  {
    name: "the job of a payment that is not settled runs",
    file: PAYMENTS,
    ...{ from: 'intent.ceiling === undefined ? "held" : "ready"', to: '"ready"' },
  },
  {
    name: "the job of a settled payment stays held",
    file: PAYMENTS,
    ...{ from: "if (row.ceiling === null) releaseHeldCall.run([now, row.call_id]);", to: "" },
  },
  {
    name: "the job of a failed payment stays in the queue",
    ...{ file: PAYMENTS, from: "jobCalls.removeHeld(record.callId);", to: "" },
  },
  {
    name: "an earlier settlement of this process counts as another's",
    ...{ file: SETTLEMENT, from: "this.#unasked.delete(callId);", to: "" },
  },
  {
    name: "a settlement before a restart counts as another's",
    ...{ file: SETTLEMENT, from: "const isFirst = this.#unasked.has(callId);", to: "const isFirst = true;" },
  },
  {
    name: "a settlement by another gateway counts as another's",
    ...{ file: SETTLEMENT, from: "isFirst && !this.#parts.journal.isShared", to: "isFirst" },
  },
  {
    name: "a yes that the chain does not show counts",
    file: "x402/settlement/settlement-attempts.ts",
    ...{ from: "success !== undefined && !evidence.isRequired(payment.key)", to: "success !== undefined" },
  },
  {
    name: "a charge is accepted although nothing is settled",
    ...{
      file: SETTLEMENT,
      from: "if (!isUnused(found)) return this.#decide(record, found);",
      to: 'return this.#accept(record, { response: successResponse(record, "0x"), block: undefined });',
    },
  },
  {
    name: "an undecided payment is told as failed",
    ...{ file: "x402/purchase/purchase.ts", from: 'if (kind === "failed") {', to: "if (kind) {" },
  },
  {
    name: "a resent payment is not looked up",
    ...{ file: "x402/purchase/purchase.ts", from: "if (known !== undefined) {", to: "if (known === null) {" },
  },
  {
    name: "nobody looks at undecided payments",
    file: "x402/settlement/reconciler.ts",
    ...{ from: "const listed = await this.#intents.next();", to: "const listed: UndecidedPayment[] = [];" },
  },
  {
    name: "nobody collects charges",
    file: "x402/settlement/charges.ts",
    ...{
      from: "for (const payment of await this.#settling.next()) {",
      to: "for (const payment of (await this.#settling.next()).slice(0, 0)) {",
    },
  },
  {
    name: "a lease that ran out still holds",
    ...{ file: LEASES, from: " && (call.visible_at ?? 0) > now;", to: ";" },
  },
  {
    name: "a lease of an earlier delivery still holds",
    ...{ file: LEASES, from: "call.lease_token === leaseToken && ", to: "" },
  },
  {
    name: "leases that ran out stay out",
    file: "store/sqlite/operations/claims.ts",
    ...{ from: "readyDue.run([now]);", to: "" },
  },
  {
    name: "an acked JobCall stays in the queue",
    ...{ file: CALLS, from: "this.#delete(finished.map(({ call }) => call.call_id));", to: "" },
  },
  {
    name: "an acked JobCall leaves no trace",
    ...{
      file: CALLS,
      from: "this.#insertSucceeded.run([JSON.stringify(",
      to: "JSON.stringify([JSON.stringify(",
    },
  },
  {
    name: "a runner charges more than the ceiling",
    ...{
      file: CHARGES,
      from: "if (BigInt(charge.units) <= BigInt(ceiling)) return undefined;",
      to: "return undefined;",
    },
  },
  {
    name: "a charge of nothing is settled",
    file: "store/sqlite/by-use-tables.ts",
    ...{ from: "iif(NEW.charge = '0', 'released', 'settling')", to: "'settling'" },
  },
  {
    name: "a charge of less than the ceiling is settled at the ceiling",
    ...{ file: OUTCOME, from: "ceiling === undefined ? required : { ...required, amount }", to: "required" },
  },
  {
    name: "a request has the outcome of another body",
    file: "x402/settlement/payments-in-progress.ts",
    ...{ from: "others.find((other) => buysTheSame(other.purchase, purchase));", to: "others[0];" },
  },
  {
    name: "a claim leases nothing",
    file: "store/sqlite/operations/claims.ts",
    ...{ from: "lease.run([leaseExpiresAt, claim.subscriber, leases, claim.now]);", to: "" },
  },
  {
    name: "a job that failed is charged",
    file: "store/sqlite/by-use-tables.ts",
    ...{
      from: "UPDATE payments SET state = 'released', amount = '0',",
      to: "UPDATE payments SET state = 'settling',",
    },
  },
];
