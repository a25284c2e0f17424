import type { WorldMutant } from "./mutant.ts";

const PRICES = "x402/prices";
const SEALED = `${PRICES}/offer-book.ts`;
const REQUESTS = `${PRICES}/request-prices.ts`;
const BOOK = `${PRICES}/price-book.ts`;

/** Removed guards of prices by what is asked. */
export const PRICE_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a sealed offer is paid for another request",
    seed: 1,
    ...{ file: SEALED, from: "if (hashOf({ boundHeaders, headers }) !== hash) return undefined;", to: "" },
  },
  {
    name: "a sealed offer is for any header",
    parts: ["prices by what is asked"],
    seed: 57,
    ...{ file: REQUESTS, from: "[...OF_BODY, ...headers].map(", to: "OF_BODY.map(" },
  },
  {
    name: "a sealed offer is paid at another job",
    parts: ["prices by what is asked"],
    seed: 79,
    ...{
      file: REQUESTS,
      from: "found === undefined || !equalJobs(found.job, job)",
      to: "found === undefined",
    },
  },
  {
    name: "a sealed offer is paid after its end",
    parts: ["prices by what is asked"],
    seed: 1,
    ...{ file: REQUESTS, from: "const { endSecs = end } = offer;", to: "const { endSecs } = offer;" },
  },
  {
    name: "the amount of a sealed offer is not compared",
    parts: ["prices by what is asked"],
    seed: 14,
    file: REQUESTS,
    ...{
      from: "this.#paid = sealed;\n      return matchOffer(payment, [sealed], clock());",
      to: "this.#paid = sealed;\n      return sealed;",
    },
  },
  {
    name: "a client's own seal is taken",
    parts: ["prices by what is asked"],
    seed: 14,
    ...{ file: SEALED, from: " || !equalInConstantTime(seal, this.#sealOf(text))", to: "" },
  },
  {
    name: "a sealed offer ends with its rule",
    seed: 7,
    ...{
      file: BOOK,
      from: "const sealed = this.#seals?.find(payment, body);",
      to: "const sealed = undefined;",
    },
  },
  {
    name: "the lowest price is an offer for every request",
    seed: 1,
    ...{
      file: BOOK,
      from: "const isShownOnly = this.#pricesOf(job) !== undefined;",
      to: "const isShownOnly = false;",
    },
  },
  {
    name: "a pricer is asked again while its price holds",
    parts: ["prices by what is asked"],
    seed: 37,
    ...{ file: REQUESTS, from: " || this.#clock() < kept.endsAt)", to: ")" },
  },
  {
    name: "a body has the price of another",
    parts: ["prices by what is asked"],
    seed: 18,
    ...{ file: REQUESTS, from: ".hash}`;", to: "}`.slice(0, id.length);" },
  },
  {
    name: "a pricer asks more than the operator allows",
    parts: ["prices by what is asked"],
    seed: 43,
    file: "parts/request-prices/pricer-answer.ts",
    ...{ from: 'if (data.price > max) return none("its price is above max");', to: "" },
  },
  {
    name: "a price that was signed for another body is asked for",
    parts: ["a pricing engine"],
    seed: 1,
    file: "parts/pricing-engine/engine-quotes.ts",
    ...{ from: "quote.inputsHash !== inputsHash", to: "quote.inputsHash === inputsHash.slice(2)" },
  },
];
