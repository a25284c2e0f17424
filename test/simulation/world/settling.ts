import { type FacilitatorConfig, toRemoteFacilitator } from "../../../src/config/facilitators.ts";
import type { X402Config } from "../../../src/config/x402.ts";
import { type RefundsConfig, refundsTable } from "../../../src/parts/refunds/config.ts";
import type { Accounts } from "./accounts.ts";
import { PRICE } from "./laws.ts";
import { addressOfKey } from "./settler-account.ts";
import type { Simulation } from "./simulation.ts";

/** Settlement in a world: who settles, and whether failed jobs are paid back. */
export interface Settling {
  readonly facilitators: readonly FacilitatorConfig[];
  readonly refunds?: RefundsConfig;
  /** Promise to buyers of jobs at a fixed price. */
  readonly onFailure?: string;
}

export const REMOTE = ["first", "second"] as const;
/** Nobody but the facilitators sends transactions. */
const BY_OTHERS: Settling = {
  facilitators: REMOTE.map((name) => toRemoteFacilitator(`http://${name}`)),
};
const GWEI = 10n ** 9n;
const FEES = { maxFeePerGasWei: 10n * GWEI, minBalanceWei: 10n ** 15n };
const ENOUGH_WEI = 10n ** 18n;
/** Pays for a few transactions. */
const LITTLE_WEI = 2n * 10n ** 15n;

function accountOf(simulation: Simulation, accounts: Accounts, name: string) {
  const privateKey: `0x${string}` = `0x${Buffer.from(name).toString("hex").padEnd(64, "0")}`;
  const wei = simulation.pick(`funds of ${name}`, [ENOUGH_WEI, ENOUGH_WEI, LITTLE_WEI]);
  const tokens = simulation.pick(`tokens of ${name}`, [1_000n, 3n]) * PRICE;
  accounts.give(addressOfKey(privateKey), { wei, ...(name === "refunds" && { tokens }) });
  return { privateKey };
}

/** Returns the configuration of an account that pays failed jobs back, after it got its first funds. */
export function refundsFrom(simulation: Simulation, accounts: Accounts): RefundsConfig {
  return { signer: accountOf(simulation, accounts, "refunds"), accounts: new Map<string, string>(), ...FEES };
}

/** Decides how payments are settled in this world, and gives the accounts that it takes their first funds. */
export function settlingOf(
  simulation: Simulation,
  accounts: Accounts,
  { network, rpcUrl }: { readonly network: string; readonly rpcUrl: string },
): Settling {
  const who = simulation.pick("facilitators", ["others", "others", "others", "the gateway", "both"]);
  const account = (name: string) => accountOf(simulation, accounts, name);
  const refunds =
    simulation.random("jobs are refunded") < 0.4 ? { refunds: refundsFrom(simulation, accounts) } : {};
  const promise = refunds.refunds && {
    onFailure: simulation.pick("on failure", ["refund", "refund", "ask"] as const),
  };
  if (who === "others") return { ...BY_OTHERS, ...refunds, ...promise };
  const names = simulation.pick("settlers", [["settler"], ["settler", "settler b"]]);
  const signers = names.map(account);
  const local = {
    kind: "in_process",
    name: "local",
    signers,
    chains: [{ network, rpcUrl }],
    ...FEES,
  } as const;
  return {
    facilitators: who === "both" ? [local, ...BY_OTHERS.facilitators.slice(1)] : [local],
    ...refunds,
    ...promise,
  };
}

/** Adds to a configuration how payments are settled. */
export function settledBy(
  config: Omit<X402Config, "facilitators">,
  { facilitators, refunds, onFailure }: Settling,
): X402Config {
  const fixed = { serviceId: 1n, jobIndex: 0, ...(onFailure && { onFailure }) };
  return {
    ...{ ...config, facilitators },
    ...(refunds && {
      paysBack: true,
      promises: refundsTable.gives?.promises ?? [],
      jobs: [fixed, ...(config.jobs ?? [])],
    }),
  };
}
