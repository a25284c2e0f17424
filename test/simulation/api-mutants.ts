import type { WorldMutant } from "./mutant.ts";

/** Guards of sold APIs that are missed in some world. */
export const API_MUTANTS: readonly WorldMutant[] = [
  {
    name: "an error of an API is charged",
    seed: 1,
    file: "store/machine/leases.ts",
    ...{ from: "const isCharged = canCharge(status) || (", to: "const isCharged = status !== 204 || (" },
  },
  {
    name: "an API is called again without leave",
    parts: ["an API that is sold"],
    seed: 18,
    file: "parts/apis/api-runner.ts",
    ...{ from: "attempt > (isRepeatable ? MAX_ATTEMPTS : 1)", to: "attempt > MAX_ATTEMPTS" },
  },
  {
    name: "an answer is sent before its charge is certain",
    seed: 1,
    file: "store/call-row.ts",
    ...{
      from: 'return payment === "settled" || payment === "released" ? "succeeded" : "running";',
      to: 'return "succeeded";',
    },
  },
  {
    name: "a resend of an answer that is forgotten gets an empty one",
    seed: 1,
    file: "store/modules/calls.ts",
    ...{ from: "if (size === null) return NOT_KEPT;", to: "if (size === null) return undefined;" },
  },
  {
    name: "an answer that broke off is taken for the whole",
    parts: ["an API that is sold"],
    seed: 57,
    file: "parts/outbound/http-client.ts",
    ...{
      from: 'else this.#end({ kind: "lost", reason, hasBegun: this.#status >= 200 });',
      to: 'else this.#end(this.#status > 0 ? this.#read() : { kind: "lost", reason, hasBegun: false });',
    },
  },
  {
    name: "all of a long answer is kept that is not charged",
    parts: ["an API that is sold"],
    seed: 1,
    file: "parts/apis/api-runner.ts",
    ...{ from: "Math.min(maxResultBytes, UNCHARGED_BYTES)", to: "maxResultBytes" },
  },
];
