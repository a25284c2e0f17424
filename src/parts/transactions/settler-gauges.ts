import type { GaugeSample } from "../../core/instruments.ts";

/** State of the transactions of jobgate's own accounts on one network. */
interface SettlerReport {
  readonly network: string;
  /** Wei by address, as they were last read. */
  readonly balances: ReadonlyMap<string, bigint>;
  /** Transactions that wait to be mined; undefined where another process sends. */
  readonly unmined: number | undefined;
}

/** Returns what the metrics show of accounts that send transactions. */
export function settlerGauges({ network, balances, unmined }: SettlerReport): GaugeSample[] {
  const samples: GaugeSample[] = [...balances].map(([address, wei]) => ({
    gauge: "jobgate_settler_balance",
    labels: { network, address },
    value: Number(wei) / 1e18,
  }));
  if (unmined !== undefined)
    samples.push({ gauge: "jobgate_settler_unmined", labels: { network }, value: unmined });
  return samples;
}
