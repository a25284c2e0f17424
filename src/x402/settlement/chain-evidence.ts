import { eip3009ABI } from "@x402/evm";
import type { Log, PublicClient } from "viem";
import { type ChainClient, chainIdOf, createChainClient } from "../../chain/chain-client.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import { NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";
import { createNonceSearch, findUse, LogsRefused, type SearchUse } from "./nonce-use.ts";
import { matchTransfer } from "./transfer-match.ts";

/** What the token's chain shows of a payment. */
export type Evidence =
  /** The authorization was used, and the matching transfer with it, in a confirmed block. */
  | { readonly kind: "paid"; readonly transaction: string }
  /** It was used for something else, cancelled, or ran out unused, in a confirmed block: it can never pay. */
  | { readonly kind: "not_paid"; readonly reason: string }
  /** Not decided yet: unused but still valid, or not confirmed. */
  | { readonly kind: "open"; readonly reason: string }
  /** The chain cannot tell, now or by itself. */
  | { readonly kind: "unknown"; readonly reason: string };

export interface ChainEvidence {
  /** Takes over a reloaded configuration's tokens. Those that are gone stay watched: payments in them may be undecided. */
  watch(tokens: readonly AcceptedToken[]): void;
  /** Whether what becomes of a payment in this token can be seen on its chain. */
  covers(token: TokenOnChain): boolean;
  /** Whether only the chain's word counts for this token. */
  isRequired(token: TokenOnChain): boolean;
  /**
   * A block before which the payment cannot have been settled: where to look from, later.
   * @throws Error when the chain cannot be asked and never could be
   */
  startBlock(token: TokenOnChain): Promise<bigint>;
  /**
   * Looks for the settlement of a payment. Never throws.
   * @param transaction where the facilitator says that it is
   */
  look(intent: PaymentIntent, transaction?: string): Promise<Evidence>;
}

/** Names a token. `asset` in any letter case. */
export interface TokenOnChain {
  /** CAIP-2 */
  readonly network: string;
  readonly asset: string;
}

export interface ChainEvidenceOptions {
  readonly tokens: readonly AcceptedToken[];
  /** For one RPC call. */
  readonly rpcTimeoutMs: number;
  /** Default: nobody is told. */
  readonly telemetry?: Telemetry;
}

/** Chains can shrink by a reorganisation between the start block and the settlement. */
const START_MARGIN_BLOCKS = 16n;

interface WatchedToken {
  readonly client: ChainClient;
  readonly confirmations: bigint;
  readonly required: boolean;
  readonly searchUse: SearchUse;
  lastHead?: bigint;
}

export function createChainEvidence({
  tokens,
  rpcTimeoutMs,
  telemetry = NO_TELEMETRY,
}: ChainEvidenceOptions): ChainEvidence {
  const watched = new Map<string, WatchedToken>();

  function watch(tokens: readonly AcceptedToken[]): void {
    for (const token of tokens) {
      const { network, asset, rpcUrl, confirmations, requireOnchainConfirmation } = token;
      if (rpcUrl === undefined) continue;
      watched.set(tokenKey({ network, asset }), {
        client: createChainClient({
          rpcUrl,
          chainId: chainIdOf(network),
          timeoutMs: rpcTimeoutMs,
          observer: { telemetry, purpose: "evidence" },
        }),
        confirmations: BigInt(confirmations),
        required: requireOnchainConfirmation,
        searchUse: createNonceSearch(),
      });
    }
  }
  watch(tokens);

  async function lookOnChain(
    intent: PaymentIntent,
    token: WatchedToken,
    transaction?: string,
  ): Promise<Evidence> {
    const client = await token.client.connect();
    const head = await client.getBlockNumber({ cacheTime: 0 });
    const confirmed = head - (token.confirmations - 1n);

    const named = transaction === undefined ? undefined : await settlementLogs(client, transaction);
    let use = named && findUse(named, intent);
    if (use === undefined) {
      if (!(await isNonceUsed(client, intent, head))) return unusedEvidence(client, intent, confirmed);
      try {
        use = await token.searchUse(client, intent, head);
      } catch (error) {
        if (!(error instanceof LogsRefused)) throw error;
        return unexplainedEvidence(client, intent, confirmed, `its nonce is used, but ${error.message}`);
      }
    }
    if (use === undefined)
      return unexplainedEvidence(client, intent, confirmed, "its nonce is used, but no event says by what");
    if (use.blockNumber > confirmed) return { kind: "open", reason: "its block is not confirmed yet" };
    if (use.eventName === "AuthorizationCanceled")
      return { kind: "not_paid", reason: "the payer cancelled it" };

    const logs = use.logs ?? (await settlementLogs(client, use.transactionHash));
    // Not "no transfer": the transaction was reorganised away meanwhile, or the node asked now lags behind.
    if (logs === undefined) return { kind: "open", reason: "the transaction that used its nonce has gone" };
    const match = matchTransfer(logs, intent);
    switch (match) {
      case "matched":
        return { kind: "paid", transaction: use.transactionHash };
      case "none":
        return { kind: "not_paid", reason: "its nonce was used without the transfer that was offered" };
      case "ambiguous":
        return {
          kind: "unknown",
          reason: "one transaction used several authorizations, and its transfers do not tell which is which",
        };
    }
  }

  return {
    watch,
    covers: (token) => watched.has(tokenKey(token)),
    isRequired: (token) => watched.get(tokenKey(token))?.required ?? false,

    async startBlock(token) {
      const known = watched.get(tokenKey(token));
      if (known === undefined) throw new Error("this token has no rpc_url");
      try {
        const client = await known.client.connect();
        known.lastHead = await client.getBlockNumber();
      } catch (error) {
        // An older head is as good a lower bound.
        if (known.lastHead === undefined) throw error;
      }
      return known.lastHead > START_MARGIN_BLOCKS ? known.lastHead - START_MARGIN_BLOCKS : 0n;
    },

    async look(intent, transaction) {
      const token = watched.get(tokenKey(intent.key));
      if (token === undefined) return { kind: "unknown", reason: "the token has no rpc_url" };
      try {
        return await lookOnChain(intent, token, transaction);
      } catch (error) {
        return { kind: "open", reason: `the chain could not be asked: ${firstLine(error)}` };
      }
    },
  };
}

/** The logs of a successful transaction; undefined when there is none yet, or it was reverted. */
async function settlementLogs(client: PublicClient, transaction: string): Promise<Log[] | undefined> {
  try {
    const receipt = await client.getTransactionReceipt({ hash: transaction as `0x${string}` });
    return receipt.status === "success" ? receipt.logs : undefined;
  } catch (error) {
    if (error instanceof Error && error.name === "TransactionReceiptNotFoundError") return undefined;
    throw error;
  }
}

/** `authorizationState` is also true after a cancellation, or when the nonce was spent on something else. */
function isNonceUsed(client: PublicClient, { key }: PaymentIntent, blockNumber: bigint): Promise<boolean> {
  return client.readContract({
    address: key.asset as `0x${string}`,
    abi: eip3009ABI,
    functionName: "authorizationState",
    args: [key.payer as `0x${string}`, key.nonce as `0x${string}`],
    blockNumber,
  });
}

/** The nonce is unused: it may still be used until a confirmed block, unused as well, is past its time. */
async function unusedEvidence(
  client: PublicClient,
  intent: PaymentIntent,
  confirmed: bigint,
): Promise<Evidence> {
  if (!(await hasRunOut(client, intent, confirmed))) {
    return { kind: "open", reason: "unused, and still valid" };
  }
  return { kind: "not_paid", reason: "it ran out unused" };
}

/** The nonce is used, but nothing is found of how: a node's logs may lag behind its state, though not for long. */
async function unexplainedEvidence(
  client: PublicClient,
  intent: PaymentIntent,
  confirmed: bigint,
  reason: string,
): Promise<Evidence> {
  return { kind: (await hasRunOut(client, intent, confirmed)) ? "unknown" : "open", reason };
}

async function hasRunOut(
  client: PublicClient,
  { validBefore }: PaymentIntent,
  confirmed: bigint,
): Promise<boolean> {
  if (confirmed < 0n) return false;
  const { timestamp } = await client.getBlock({ blockNumber: confirmed });
  return timestamp >= BigInt(validBefore);
}

function tokenKey({ network, asset }: TokenOnChain): string {
  return `${network}/${asset.toLowerCase()}`;
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}
