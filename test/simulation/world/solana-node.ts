import { PROGRAMS } from "../../../src/parts/solana/portable/addresses.ts";
import type { Server, WireAnswer } from "./network.ts";
import type { Simulation } from "./simulation.ts";
import type { SolanaBlock, SolanaCluster, SolanaTransaction } from "./solana-cluster.ts";

/** CAIP-2 reference of the cluster, by which its first block's hash begins. */
export const REFERENCE = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
/** Slot of the cluster's first block. */
const FIRST_SLOT = 1_001;
/** Slots by which a node is behind at most: fewer than the evidence allows for. */
const MAX_LAG_SLOTS = 140;
const LIFETIME_BLOCKS = 150;
/** A token account, the place of its units, and those of a payer who can pay. */
const TOKEN_ACCOUNT_BYTES = 165;
const UNITS_AT = 64;
const RICH = 1_000_000_000_000n;
/** Slots whose blocks nodes keep: all, or little more than the evidence of a payment takes. */
const KEPT_SLOTS = [Number.POSITIVE_INFINITY, 600, 500] as const;

interface Options {
  readonly commitment?: string;
  readonly minContextSlot?: number;
}

/** JSON-RPC of a cluster through nodes that lag, forget old blocks, or follow a fork that loses. */
export function solanaNode(simulation: Simulation, cluster: SolanaCluster): Server {
  const keptSlots = simulation.pick("slots that nodes of Solana keep", KEPT_SLOTS);
  return ({ body }, answer) => {
    const { method, params } = JSON.parse(body) as { method: string; params: unknown[] };
    if (simulation.fault("a node of Solana stays silent", 0.01)) return;
    if (simulation.fault("a node of Solana answers 503", 0.02)) return answer(json(503, "overloaded"));
    const lag = simulation.fault("a node of Solana lags", 0.1)
      ? Math.floor(simulation.random("lag of a node of Solana") * MAX_LAG_SLOTS)
      : 0;
    // Then an operator names an RPC that has all blocks.
    const isHealed = simulation.trueMs >= simulation.healedAtMs;
    const firstSlot = isHealed ? FIRST_SLOT : Math.max(FIRST_SLOT, cluster.slotAt("confirmed") - keptSlots);
    const view = new View(simulation, cluster, { lag, firstSlot });
    const result = view.answer(method, params);
    answer(json(200, { jsonrpc: "2.0", id: 1, ...result }));
  };
}

/** Knowledge of one node of the cluster. */
class View {
  readonly #simulation: Simulation;
  readonly #cluster: SolanaCluster;
  readonly #lag: number;
  /** Slot of the oldest block that the node still has. */
  readonly #firstSlot: number;

  constructor(
    simulation: Simulation,
    cluster: SolanaCluster,
    { lag, firstSlot }: { readonly lag: number; readonly firstSlot: number },
  ) {
    this.#simulation = simulation;
    this.#cluster = cluster;
    this.#lag = lag;
    this.#firstSlot = firstSlot;
  }

  answer(method: string, params: readonly unknown[]): object {
    const options = (params.at(-1) ?? {}) as Options;
    const slot = this.#cluster.slotAt(options.commitment ?? "finalized", this.#lag);
    if (options.minContextSlot !== undefined && options.minContextSlot > slot)
      return { error: { code: -32016, message: "Minimum context slot has not been reached" } };
    return { result: this.#result(method, params, slot, options) };
  }

  #result(method: string, [asked]: readonly unknown[], slot: number, { commitment }: Options): unknown {
    const blocks = this.#cluster.blocksUpTo(slot);
    const newest = blocks.at(-1) as SolanaBlock;
    switch (method) {
      case "getGenesisHash":
        return `${REFERENCE}restofthehash`;
      case "getSlot":
        return slot;
      case "getBlockTime":
        return this.#cluster.secsOf(Number(asked));
      case "getFirstAvailableBlock":
        return this.#firstSlot;
      case "getLatestBlockhash": {
        const isForked = this.#simulation.fault(
          "a node of Solana names a blockhash of a fork that loses",
          0.05,
        );
        const blockhash = isForked ? "GgBaCs3NCBuZN12kCJgAW63ydqohFkHEdfdEXBPzLHq" : newest.blockhash;
        return {
          context: { slot },
          value: { blockhash, lastValidBlockHeight: newest.height + LIFETIME_BLOCKS },
        };
      }
      case "isBlockhashValid":
        return {
          context: { slot },
          value: blocks.slice(-LIFETIME_BLOCKS).some(({ blockhash }) => blockhash === asked),
        };
      case "getAccountInfo": {
        // The account that a payer takes the token from.
        const isPoor = this.#simulation.fault("a payer of Solana shows no funds", 0.03);
        const data = Buffer.alloc(TOKEN_ACCOUNT_BYTES);
        data.writeBigUInt64LE(isPoor ? 0n : RICH, UNITS_AT);
        const value = { owner: PROGRAMS.token, data: [data.toString("base64"), "base64"] };
        return { context: { slot }, value };
      }
      case "getTransaction": {
        const isHidden = this.#isOfAnotherFork(commitment);
        const found = this.#landed(blocks).find(({ signature }) => signature === asked);
        return found === undefined || isHidden ? null : transactionOf(found);
      }
      case "getSignaturesForAddress":
        if (this.#isOfAnotherFork(commitment)) return [];
        return this.#landed(blocks)
          .filter(({ transfer }) => transfer.destination === asked)
          .map(({ signature, slot, transfer: { memo } }) => ({
            signature,
            slot,
            memo: `[${memo.length}] ${memo}`,
          }))
          .reverse();
      default:
        throw new Error(`the cluster has no ${method}`);
    }
  }

  #landed(blocks: readonly SolanaBlock[]): readonly SolanaTransaction[] {
    return blocks.flatMap(({ slot, transactions }) => (slot < this.#firstSlot ? [] : transactions));
  }

  /** Forks are of blocks that are not finalized. */
  #isOfAnotherFork(commitment: string | undefined): boolean {
    return commitment !== "finalized" && this.#simulation.fault("a node of Solana is on another fork", 0.1);
  }
}

function transactionOf({ base64, slot, hasFailed, transfer }: SolanaTransaction): object {
  const accountIndex = transfer.transaction.accounts.indexOf(transfer.destination);
  const balance = (amount: bigint) => [{ accountIndex, uiTokenAmount: { amount: String(amount) } }];
  return {
    slot,
    meta: {
      err: hasFailed ? { InstructionError: [2, { Custom: 1 }] } : null,
      preTokenBalances: balance(5n),
      postTokenBalances: balance(5n + (hasFailed ? 0n : transfer.amount)),
    },
    transaction: [base64, "base64"],
  };
}

function json(status: number, value: unknown): WireAnswer {
  return { status, headers: { "content-type": "application/json" }, text: JSON.stringify(value) };
}
