import { eip3009ABI } from "@x402/evm";
import type { Log, PublicClient } from "viem";
import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { PaymentIntent, PaymentKey } from "../../core/payment.ts";
import { NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";
import { findUse, LogsRefused, NonceSearch, type NonceUse } from "./nonce-use.ts";
import { decidePayment, type Evidence, type NonceFacts } from "./payment-decision.ts";

/** Names a token. `network` is CAIP-2, `asset` in any letter case. */
type TokenName = Pick<PaymentKey, "network" | "asset">;

/** A token whose chain can be asked. */
interface WatchedToken {
  readonly client: ChainClient;
  /** Blocks that confirm an event, its own included. */
  readonly confirmations: bigint;
  readonly required: boolean;
  readonly search: NonceSearch;
  lastHead?: bigint;
}

/** Chains can shrink by a reorganisation between the start block and the settlement. */
const START_MARGIN_BLOCKS = 16n;

/** Evidence of payments on the chains of tokens that have an `rpc_url`. */
export class ChainEvidence {
  readonly #rpcTimeoutMs: number;
  readonly #telemetry: Telemetry;
  readonly #watched = new Map<string, WatchedToken>();

  /** @param parts `rpcTimeoutMs` is for one RPC call */
  constructor(parts: {
    readonly tokens: readonly AcceptedToken[];
    readonly rpcTimeoutMs: number;
    readonly telemetry?: Telemetry;
  }) {
    this.#rpcTimeoutMs = parts.rpcTimeoutMs;
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
    this.watch(parts.tokens);
  }

  /** Adds a reloaded configuration's tokens. Removed ones stay: payments in them may be undecided. */
  watch(tokens: readonly AcceptedToken[]): void {
    for (const token of tokens) {
      const { network, rpcUrl, confirmations, requireOnchainConfirmation } = token;
      if (rpcUrl === undefined) continue;
      this.#watched.set(tokenKey(token), {
        client: new ChainClient({
          rpcUrl,
          chainId: chainIdOf(network),
          timeoutMs: this.#rpcTimeoutMs,
          observer: { telemetry: this.#telemetry, purpose: "evidence" },
        }),
        confirmations: BigInt(confirmations),
        required: requireOnchainConfirmation,
        search: new NonceSearch(),
      });
    }
  }

  /** Tells whether the chain of this token can be asked. */
  covers(token: TokenName): boolean {
    return this.#watched.has(tokenKey(token));
  }

  /** Tells whether only the chain's word counts for this token. */
  isRequired(token: TokenName): boolean {
    return this.#watched.get(tokenKey(token))?.required ?? false;
  }

  /**
   * Returns a block before which no payment that begins now can have been settled, to search from later.
   * @throws Error when the chain cannot be asked and never could be
   */
  async startBlock(token: TokenName): Promise<bigint> {
    const known = this.#watched.get(tokenKey(token));
    if (known === undefined) throw new Error("this token has no rpc_url");
    try {
      const client = await known.client.connect();
      known.lastHead = await client.getBlockNumber();
    } catch (error) {
      // An older head is as good a lower bound.
      if (known.lastHead === undefined) throw error;
    }
    return known.lastHead > START_MARGIN_BLOCKS ? known.lastHead - START_MARGIN_BLOCKS : 0n;
  }

  /**
   * Looks for the settlement of a payment. Never throws.
   * @param transaction hash that the facilitator named, to look there first
   */
  async look(intent: PaymentIntent, transaction?: string): Promise<Evidence> {
    const token = this.#watched.get(tokenKey(intent.key));
    if (token === undefined) return { kind: "unknown", reason: "the token has no rpc_url" };
    try {
      return decidePayment(await readNonceFacts(token, intent, transaction), intent);
    } catch (error) {
      return { kind: "open", reason: `the chain could not be asked: ${firstLine(error)}` };
    }
  }
}

/** Reads from the chain what the decision needs, and no more. */
async function readNonceFacts(
  token: WatchedToken,
  intent: PaymentIntent,
  transaction: string | undefined,
): Promise<NonceFacts> {
  const client = await token.client.connect();
  const head = await client.getBlockNumber({ cacheTime: 0 });
  const confirmedBlock = head - (token.confirmations - 1n);

  if (transaction !== undefined) {
    const logs = await settlementLogs(client, transaction);
    const use = logs && findUse(logs, intent);
    if (use !== undefined) return useFacts(use, confirmedBlock, async () => logs);
  }

  const expired = () => isExpired(client, intent, confirmedBlock);
  if (!(await isNonceUsed(client, intent, head))) return { nonce: "unused", expired: await expired() };
  try {
    const use = await token.search.find(client, intent, head);
    if (use !== undefined) {
      return await useFacts(use, confirmedBlock, () => settlementLogs(client, use.transactionHash));
    }
    const problem = "its nonce is used, but no event shows by which transaction";
    return { nonce: "used_unexplained", expired: await expired(), problem };
  } catch (error) {
    if (!(error instanceof LogsRefused)) throw error;
    const problem = `its nonce is used, but ${error.message}`;
    return { nonce: "used_unexplained", expired: await expired(), problem };
  }
}

async function useFacts(
  { eventName, blockNumber, transactionHash }: NonceUse,
  confirmedBlock: bigint,
  readLogs: () => Promise<readonly Log[] | undefined>,
): Promise<NonceFacts> {
  const confirmed = blockNumber <= confirmedBlock;
  if (eventName === "AuthorizationCanceled") return { nonce: "cancelled", confirmed };
  const logs = confirmed ? await readLogs() : undefined;
  return { nonce: "used", confirmed, transaction: transactionHash, logs };
}

/** Returns the logs of a successful transaction; undefined when the chain does not have it, or it was reverted. */
async function settlementLogs(client: PublicClient, transaction: string): Promise<Log[] | undefined> {
  try {
    const receipt = await client.getTransactionReceipt({ hash: transaction as `0x${string}` });
    return receipt.status === "success" ? receipt.logs : undefined;
  } catch (error) {
    if (error instanceof Error && error.name === "TransactionReceiptNotFoundError") return undefined;
    throw error;
  }
}

/** Asks `authorizationState`, which is also true after a cancellation, or when the nonce was spent on something else. */
function isNonceUsed(client: PublicClient, { key }: PaymentIntent, blockNumber: bigint): Promise<boolean> {
  return client.readContract({
    address: key.asset as `0x${string}`,
    abi: eip3009ABI,
    functionName: "authorizationState",
    args: [key.payer as `0x${string}`, key.nonce as `0x${string}`],
    blockNumber,
  });
}

async function isExpired(
  client: PublicClient,
  { validBefore }: PaymentIntent,
  confirmedBlock: bigint,
): Promise<boolean> {
  if (confirmedBlock < 0n) return false;
  const { timestamp } = await client.getBlock({ blockNumber: confirmedBlock });
  return timestamp >= BigInt(validBefore);
}

function tokenKey({ network, asset }: TokenName): string {
  return `${network}/${asset.toLowerCase()}`;
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}
