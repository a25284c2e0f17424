import type { WorldMutant } from "./mutant.ts";

const EVIDENCE = "parts/solana/evidence.ts";
const DECIDED = "x402/settlement/decided-payments.ts";
const parts = ["payments on Solana"] as const;

/** Removed guards of payments on Solana. `test/parts/solana` has a test of each other guard. */
export const SOLANA_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a transaction of Solana counts before it is finalized",
    parts,
    seed: 69,
    ...{
      file: EVIDENCE,
      from: 'readLanded(rpc, signature, "finalized")',
      to: 'readLanded(rpc, signature, "confirmed")',
    },
  },
  {
    name: "a search on Solana finds what is not finalized",
    parts,
    seed: 1,
    ...{
      file: EVIDENCE,
      from: '...search, commitment: "finalized"',
      to: '...search, commitment: "confirmed"',
    },
  },
  {
    name: "the transaction of another payment on Solana counts",
    parts,
    seed: 45,
    ...{
      file: EVIDENCE,
      from: "if (named?.final?.messageHash === intent.key.nonce)",
      to: "if (named?.final)",
    },
  },
  {
    name: "a block on Solana counts as final although a fork may replace it",
    parts,
    seed: 37,
    ...{
      file: DECIDED,
      from: 'found.kind === "open" || (found.kind === "paid" && found.mayBeReplaced)',
      to: 'found.kind === "open"',
    },
  },
  {
    name: "payments on Solana that were sold before they are final are not looked at again",
    parts,
    seed: 14,
    ...{ file: "x402/settlement/reconciler.ts", from: "listed.push(...(await this.#early.next()));", to: "" },
  },
  {
    name: "the end of a blockhash on Solana is not awaited",
    parts,
    seed: 59,
    ...{ file: EVIDENCE, from: "if (isValid) return this", to: "if (isValid && mayLand) return this" },
  },
  {
    name: "a confirmed transaction of another payment on Solana counts",
    parts,
    seed: 1,
    ...{
      file: EVIDENCE,
      from: "named?.early?.messageHash === intent.key.nonce &&",
      to: "named?.early &&",
    },
  },
  {
    name: "a transaction of Solana that failed counts",
    parts,
    seed: 1,
    ...{ file: "parts/solana/chain.ts", from: "hasFailed: err !== null,", to: "hasFailed: false," },
  },
];
