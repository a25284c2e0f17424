import { NOTHING_HAPPENS, type Scenario } from "./payments.ts";

const ONE: Scenario = { ...NOTHING_HAPPENS, requests: 1 };

/** A second or two each. */
export const SMALL: Readonly<Record<string, Scenario>> = {
  "a lying facilitator": { ...ONE, lies: 1 },
  "a node of the chain that errs": { ...ONE, falseViews: 1 },
  "no chain to ask, a crash and a store that refuses a write": {
    ...{ ...ONE, requests: 2, crashes: 1, storeFaults: 1 },
    hasChain: false,
  },
};

/** Half a minute at most. */
export const LARGE: Readonly<Record<string, Scenario>> = {
  "two requests at once": { ...ONE, requests: 2 },
  "a lying facilitator, a crash and a store that refuses a write": {
    ...{ ...ONE, lies: 1, crashes: 1, storeFaults: 1 },
  },
  "a node of the chain that errs, and a reconciler": { ...ONE, falseViews: 1, checks: 1 },
  "a thief with the client's payment, and a crash": { ...ONE, thefts: 1, crashes: 1 },
  "two payments under one name": { ...ONE, payments: 2, purchase: "name" },
};
