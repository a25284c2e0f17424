import { type Address, parseAbiItem } from "viem";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { type Anvil, borrowAnvil, startAnvil } from "../helpers/anvil.ts";
import { type Facilitator, startFacilitator } from "../helpers/facilitator.ts";
import { deployUsdc, type Token } from "../helpers/usdc.ts";

/** Price of one job in USDC's units. */
export const AMOUNT = 3_264_000n;

/** Everything that a payment needs outside of jobgate: one chain and one facilitator for several jobgates. */
export interface PaidParts {
  readonly anvil: Anvil;
  readonly usdc: Token;
  readonly facilitator: Facilitator;
  /** Unix seconds of the chain's latest block: ahead of the clock once a test has moved it. */
  chainTimeSecs(): Promise<number>;
  /** Mines a block so much time after the latest one and after now: payments that are valid for less have expired. */
  passTime(seconds: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startPaidParts(
  options: {
    readonly confirmationTimeoutMs?: number;
    /** Default: the test accounts that pay. */
    readonly payers?: readonly TestAccount[];
    readonly anvilArgs?: readonly string[];
    /** The facilitator gives Permit2 the approvals of payers who sign them. */
    readonly sponsorsGas?: boolean;
    /** The facilitator settles metered payments, too. */
    readonly meteredSettler?: boolean;
  } = {},
): Promise<PaidParts> {
  const { payers = [accounts.payer, accounts.otherPayer], anvilArgs, sponsorsGas = false } = options;
  const { meteredSettler = false } = options;
  const anvil = await (anvilArgs === undefined ? borrowAnvil() : startAnvil({ extraArgs: anvilArgs }));
  const usdc = await deployUsdc({ anvil });
  for (const payer of payers) await usdc.mint(payer.address, 1_000_000_000_000n);
  const facilitator = await startFacilitator({
    anvil,
    sponsorsGas,
    meteredSettler,
    ...(options.confirmationTimeoutMs === undefined
      ? {}
      : { confirmationTimeoutMs: options.confirmationTimeoutMs }),
  });
  return {
    anvil,
    usdc,
    facilitator,
    chainTimeSecs: async () => Number((await anvil.client.getBlock()).timestamp),
    async passTime(seconds) {
      const { timestamp } = await anvil.client.getBlock();
      // anvil's own clock is behind after a revert, by as much as the test took before it.
      const now = Math.max(Number(timestamp), Math.floor(Date.now() / 1000));
      await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(now + seconds) });
      await anvil.client.mine({ blocks: 1 });
    },
    async stop() {
      await facilitator.stop();
      await anvil.stop();
    },
  };
}

/** Transfer of the token by some accounts. */
export interface Sent {
  /** Lower case. */
  readonly to: string;
  readonly value: bigint;
  readonly transaction: string;
}

/** Finds all transfers that these accounts have sent. */
export async function transfersFrom({ anvil, usdc }: PaidParts, from: readonly Address[]): Promise<Sent[]> {
  const logs = await anvil.client.getLogs({
    address: usdc.address,
    event: parseAbiItem("event Transfer(address indexed from, address indexed to, uint256 value)"),
    args: { from: [...from] },
    fromBlock: 0n,
  });
  return logs.map(({ args: { to = "", value = 0n }, transactionHash: transaction }) => ({
    to: to.toLowerCase(),
    value,
    transaction,
  }));
}
