import type { Mutant } from "./mutant.ts";
import { NOTHING_HAPPENS, type Scenario } from "./payments.ts";

const SETTLEMENT = "x402/settlement/settlement.ts";
const RECORDER = "x402/settlement/outcome-recorder.ts";
const ATTEMPTS = "x402/settlement/settlement-attempts.ts";
const OUTCOME = "x402/settlement/payment-outcome.ts";
const DECISION = "x402/settlement/payment-decision.ts";
const RULES = "store/rules/payments.ts";

const ONE = { ...NOTHING_HAPPENS, requests: 1 };

/** Guards that the gateway has, and a scenario in which each is missed. */
export const MUTANTS: readonly (Mutant & { readonly name: string; readonly scenario: Scenario })[] = [
  {
    name: "a payment is begun although it is known",
    ...{ file: RULES, from: "if (known !== undefined) return", to: "if (known === null) return" },
    scenario: { ...ONE, requests: 2 },
  },
  {
    name: "a one-time nonce is used up again",
    ...{ file: RULES, from: "if (used !== undefined) return", to: "if (used === null) return" },
    scenario: { ...ONE, payments: 2, purchase: "nonce" },
  },
  {
    name: "a settled payment can fail",
    ...{
      file: RULES,
      from: 'settled: { finalize: ifWatched("settled", "endWatch"), contradict: ifWatched("settled", "endWatch") },\n  },\n  /**',
      to: 'settled: { fail: to("failed", "keepCall", "watch") },\n  },\n  /**',
    },
    scenario: { ...ONE, checks: 1, falseViews: 1 },
  },
  {
    name: "a failed payment cannot be settled",
    ...{
      file: RULES,
      from: 'settle: ifWatched("settled", "endWatch", "requeueCall", "useNonce"),',
      to: "",
    },
    scenario: { ...ONE, checks: 1, falseViews: 1 },
  },
  {
    name: "an unused authorization counts as not paid",
    ...{
      file: DECISION,
      from: "if (!facts.expired) return { ...open(",
      to: "if (facts.nonce !== 'unused') return { ...open(",
    },
    scenario: ONE,
  },
  {
    name: "a facilitator's yes counts where the chain can be asked",
    ...{
      file: ATTEMPTS,
      from: "success === undefined || this.#parts.evidence.isRequired(payment.key)",
      to: "success === undefined",
    },
    scenario: { ...ONE, lies: 1 },
  },
  {
    name: "a facilitator's no counts",
    ...{
      file: ATTEMPTS,
      from: 'if (answer.kind === "paid") return',
      to: 'if (answer.kind === "refused") return { found: { kind: "not_paid", reason: "no" } };\n    if (answer.kind === "paid") return',
    },
    scenario: { ...ONE, lies: 1 },
  },
  {
    name: "an undecided payment counts as failed",
    ...{
      file: RECORDER,
      from: "return this.#undecided(intent, evidence.reason);",
      to: "return this.fail(intent, evidence.reason);",
    },
    scenario: ONE,
  },
  {
    name: "a payment that was settled elsewhere is said to have failed",
    ...{
      file: RECORDER,
      from: 'if (kind === "not_open") return',
      to: 'if (kind === "failed" && intent === undefined) return',
    },
    scenario: { ...ONE, checks: 1, falseViews: 1 },
  },
  {
    name: "a payment that cannot be recorded is said to have failed",
    ...{
      file: RECORDER,
      from: "this.#unrecorded.set(fingerprint,",
      to: 'if (settlement) return { kind: "failed", settlement };\n      this.#unrecorded.set(fingerprint,',
    },
    scenario: { ...ONE, storeFaults: 1 },
  },
  {
    name: "a yes that cannot be recorded is forgotten",
    ...{ file: RECORDER, from: "this.#unrecorded.set(fingerprint,", to: "new Map().set(fingerprint," },
    scenario: { ...ONE, storeFaults: 1, hasChain: false },
  },
  {
    name: "a yes that was not recorded is not tried again",
    ...{
      file: SETTLEMENT,
      from: "const { evidence, clock } = this.#parts;\n    const recorded = await this.#recorder.recordAgain(record);",
      to: "const { evidence, clock } = this.#parts;\n    const recorded = undefined;",
    },
    scenario: { ...ONE, storeFaults: 1, hasChain: false },
  },
  {
    name: "a payment is taken for another body",
    ...{ file: OUTCOME, from: "if (buysTheSame(known, asked) && (", to: "if ((" },
    scenario: { ...ONE, thefts: 1 },
  },
  {
    name: "an undecided payment is not looked at again",
    ...{
      file: SETTLEMENT,
      from: "const outcome = await this.#decide(record, found);",
      to: 'const outcome: PaymentOutcome = { kind: "undecided" };',
    },
    scenario: ONE,
  },
  {
    name: "an undecided payment has failed for the client that asks again",
    ...{
      file: OUTCOME,
      from: 'if (state === "failed" && settlement !== undefined) {',
      to: 'if (state === "failed" || state === "intent") {\n    return { kind: "failed", settlement: failureResponse(record, "") };\n  }\n  if (state === "failed" && settlement !== undefined) {',
    },
    scenario: { ...ONE, requests: 2 },
  },
];
