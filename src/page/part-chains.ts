/** Chains beside EVM chains on which the shop's pages can pay, by their CAIP-2 namespace: a line for each. Pages load those that a job is sold on. */
export const solana = () => import("../parts/solana/view/solana.ts");
