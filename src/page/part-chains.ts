/** Chains beside EVM chains on which the shop's pages can pay, by CAIP-2 namespace, a line for each. A page loads the chains that its job is sold on. */
export const solana = () => import("../parts/solana/view/solana.ts");
