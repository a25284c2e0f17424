import type { WorldMutant } from "./mutant.ts";

const RULES = "parts/channels/store/rules.ts";
const REFUNDS = "parts/channels/store/refund-rules.ts";
const METHOD = "parts/channels/method.ts";
const CLAIMS = "parts/channels/claims.ts";
const parts = ["payment channels"] as const;

/** Removed guards of payment channels. */
export const CHANNEL_MUTANTS: readonly WorldMutant[] = [
  {
    name: "the base of a channel falls below final charges",
    parts,
    seed: 14,
    ...{ file: RULES, from: "base: row.kept, base_call: null", to: 'base: "0", base_call: null' },
  },
  {
    name: "a voucher below the base of a channel buys a call",
    parts,
    seed: 14,
    file: RULES,
    from: "cumulative === BigInt(base) + amount;",
    to: "cumulative <= BigInt(base) + amount;",
  },
  {
    name: "a claim takes pending charges of a channel",
    parts,
    seed: 14,
    file: CLAIMS,
    from: "const totalClaimed = claimable(row, looked);",
    to: "const totalClaimed = claimable({ ...row, final: row.charged }, looked);",
  },
  {
    name: "a claim of a channel is sent before it is journalled",
    parts,
    seed: 14,
    file: CLAIMS,
    from: "await ledger.askClaims(claims.map(({ row }) => row.channel_id));",
    to: "ledger.askClaims(claims.map(({ row }) => row.channel_id)).catch(() => undefined);",
  },
  {
    name: "a voucher is taken although its payer withdraws",
    parts,
    seed: 13,
    file: RULES,
    from: "const { status, base, balance } = row;",
    to: 'const { base, balance } = row;\n  const status = String(row.status).replace("withdrawing", "open");',
  },
  {
    name: "a refund of a channel leaves less than is charged",
    parts,
    seed: 14,
    file: REFUNDS,
    from: "BigInt(chain.balance)) - standing(row);",
    to: "BigInt(chain.balance)) - claimGoal(row);",
  },
  {
    name: "a refund of a channel has ended before it is paid",
    parts,
    seed: 126,
    file: REFUNDS,
    from: "BigInt(chain.refundNonce) <= BigInt(refund.nonce)",
    to: "BigInt(chain.refundNonce) < BigInt(refund.nonce)",
  },
  {
    name: "a call is sold although its deposit is not made",
    parts,
    seed: 69,
    file: METHOD,
    from: 'return voucher.deposit === undefined ? { settlement: settlementOf(voucher, amount) } : "unpaid";',
    to: "return { settlement: settlementOf(voucher, amount) };",
  },
  {
    name: "a deposit is taken for made before its chain shows it",
    parts,
    seed: 44,
    file: METHOD,
    from: 'journalledVoucher(intent).deposit === undefined ? { kind: "paid", transaction: "" } : undefined',
    to: '({ kind: "paid", transaction: "" })',
  },
  {
    name: "a call that failed is charged in its channel",
    parts,
    seed: 14,
    ...{ file: RULES, from: '?? "returned",', to: '?? "kept",' },
  },
  {
    name: "what a call has not used is charged in its channel",
    parts,
    seed: 1,
    ...{ file: RULES, from: "return { ...charge, used, state: used", to: "return { ...charge, state: used" },
  },
  {
    name: "vouchers above the deposits of a channel are taken",
    parts,
    seed: 37,
    ...{
      file: RULES,
      from: "const isCovered = standing(row) + amount <= BigInt(balance) + deposit;",
      to: "const isCovered = balance !== undefined;",
    },
  },
  {
    name: "a final charge does not keep the base of its channel",
    parts,
    seed: 14,
    file: RULES,
    from: "kept: String(max(BigInt(row.kept), BigInt(charge.cumulative))),",
    to: "kept: row.kept,",
  },
];
