import type { WorldMutant } from "./mutant.ts";

const QUOTES = "parts/pricing-engine/quote-book.ts";

/** Guards of quotes that are missed in some world. */
export const QUOTE_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a quote is paid for another input",
    parts: ["a pricing engine"],
    seed: 55,
    ...{
      file: QUOTES,
      from: "256)}` !== quote.inputsHash) {",
      to: "256)}` === quote.inputsHash.slice(2)) {",
    },
  },
  {
    name: "a quote is paid by another payer",
    parts: ["a pricing engine"],
    seed: 57,
    ...{
      file: QUOTES,
      from: "use.payer !== undefined && use.payer !== quote.requester",
      to: 'use.payer === ""',
    },
  },
  {
    name: "a quote is paid twice",
    parts: ["a pricing engine"],
    seed: 16,
    ...{ file: QUOTES, from: "nonce: { nonce, refusal: quotePaid } };", to: "...(nonce && {}) } as never;" },
  },
  {
    name: "a quote is paid after its end",
    parts: ["a pricing engine"],
    seed: 79,
    file: "parts/pricing-engine/store/module.ts",
    ...{ from: "AND expires_at > $", to: "AND 0 < $" },
  },
  {
    name: "a price that a stranger has signed is asked for",
    parts: ["a pricing engine"],
    seed: 79,
    ...{
      file: "parts/pricing-engine/job-quote.ts",
      from: "if (signer !== operator) {",
      to: 'if (signer === "") {',
    },
  },
];
