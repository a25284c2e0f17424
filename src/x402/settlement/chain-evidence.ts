import { eip3009ABI } from "@x402/evm";
import { LRUCache } from "lru-cache";
import type { Log, PublicClient } from "viem";
import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { PaymentIntent, PaymentKey } from "../../core/payment.ts";
import { NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";
import { NoStateByHash, readView } from "./block-view.ts";
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
  /** Set once the RPC has read state by the hash of a block: from then on, a refusal is a node that lacks the block. */
  readsByHash?: true;
}

/** Chains can shrink by a reorganisation between the start block and the settlement. */
const START_MARGIN_BLOCKS = 16n;
/** Payments seen once as not paid that are remembered; a forgotten one takes another look. */
const MAX_SIGHTINGS = 20_000;
/** Bound of the search for a transaction while a client waits. */
const QUICK_QUERIES = 10;

/** Evidence of payments on the chains of tokens that have an `rpc_url`. */
export class ChainEvidence {
  /** Time between the two looks that it takes to say that a payment was not paid. */
  readonly secondLookAfterMs: number;
  readonly #rpcTimeoutMs: number;
  readonly #telemetry: Telemetry;
  readonly #watched = new Map<string, WatchedToken>();
  /** First of the two looks that showed a payment as not paid, by fingerprint. */
  readonly #sightings = new LRUCache<string, { readonly reason: string; readonly at: number }>({
    max: MAX_SIGHTINGS,
  });

  /** @param parts `rpcTimeoutMs` is for one RPC call */
  constructor(parts: {
    readonly tokens: readonly AcceptedToken[];
    readonly rpcTimeoutMs: number;
    readonly secondLookAfterMs: number;
    readonly telemetry?: Telemetry;
  }) {
    this.secondLookAfterMs = parts.secondLookAfterMs;
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
   * Looks for the use of an authorization that jobgate has not journalled yet.
   * @returns the transaction that used it, if the search finds it quickly; undefined when it is unused
   * @throws Error when the chain cannot be asked
   */
  async findEarlierUse(
    intent: Pick<PaymentIntent, "key" | "fingerprint" | "payload" | "validBefore">,
  ): Promise<{ readonly transaction?: string } | undefined> {
    const token = this.#watched.get(tokenKey(intent.key));
    if (token === undefined) return undefined;
    const client = await token.client.connect();
    if (!(await isNonceUsed(client, intent))) return undefined;
    try {
      const head = await client.getBlockNumber({ cacheTime: 0 });
      const use = await token.search.find(client, intent, head, QUICK_QUERIES);
      return use === undefined || use === "unfinished" ? {} : { transaction: use.transactionHash };
    } catch {
      return {};
    }
  }

  /**
   * Looks for the settlement of a payment. Never throws.
   *
   * An RPC address can have nodes behind it that differ. So a decision takes a confirmed block whose hash, time and state
   * come from one view, and *not paid*, which is the worse mistake, two looks, {@link secondLookAfterMs} apart.
   * @param transaction hash that the facilitator named, to look there first
   */
  async look(intent: PaymentIntent, transaction?: string): Promise<Evidence> {
    const token = this.#watched.get(tokenKey(intent.key));
    if (token === undefined) return { kind: "unknown", reason: "the token has no rpc_url" };
    try {
      const client = await token.client.connect();
      const head = await client.getBlockNumber({ cacheTime: 0 });
      const confirmedBlock = head - (token.confirmations - 1n);
      const found = await readNonceFacts({ client, token, intent, transaction, head, confirmedBlock });
      const evidence = decidePayment(found.facts, intent);
      const isPaid = evidence.kind === "paid";
      if (!isPaid && evidence.kind !== "not_paid") {
        this.#sightings.delete(intent.fingerprint);
        return evidence;
      }
      const doubt = await doubtAbout({ client, token, intent, confirmedBlock, isPaid, use: found.use });
      if (!isPaid && doubt === undefined) return this.#secondLook(intent, evidence);
      this.#sightings.delete(intent.fingerprint);
      const reason = isPaid ? "the authorization was used for the payment" : evidence.reason;
      return doubt === undefined ? evidence : { kind: "open", reason: `${reason}, but ${doubt}` };
    } catch (error) {
      return { kind: "open", reason: `the chain could not be asked: ${firstLine(error)}` };
    }
  }

  #secondLook({ fingerprint }: PaymentIntent, evidence: Evidence & { kind: "not_paid" }): Evidence {
    const { reason } = evidence;
    const first = this.#sightings.get(fingerprint);
    if (first?.reason === reason && performance.now() - first.at >= this.secondLookAfterMs) return evidence;
    if (first?.reason !== reason) this.#sightings.set(fingerprint, { reason, at: performance.now() });
    return { kind: "open", reason: `${reason}: a second look has to confirm it`, isAlmostNotPaid: true };
  }
}

/** One look at a payment. */
interface Look {
  readonly client: PublicClient;
  readonly token: WatchedToken;
  readonly intent: PaymentIntent;
  readonly transaction: string | undefined;
  readonly head: bigint;
  readonly confirmedBlock: bigint;
}

/** Facts about a nonce, with the event that used it where one was found. */
interface FoundFacts {
  readonly facts: NonceFacts;
  readonly use?: NonceUse;
}

/** Reads from the chain what the decision needs, and no more. */
async function readNonceFacts(look: Look): Promise<FoundFacts> {
  const { client, token, intent, transaction, head, confirmedBlock } = look;
  if (transaction !== undefined) {
    const logs = await settlementLogs(client, transaction);
    const use = logs && findUse(logs, intent);
    if (use !== undefined) return useFacts(intent, use, confirmedBlock, async () => logs);
  }

  const expired = () => isExpired(client, intent, confirmedBlock);
  if (!(await isNonceUsed(client, intent, head))) {
    return { facts: { nonce: "unused", expired: await expired() } };
  }
  const unexplained = (isExpired: boolean, problem: string): FoundFacts => ({
    facts: { nonce: "used_unexplained", expired: isExpired, problem },
  });
  try {
    const use = await token.search.find(client, intent, head);
    if (use === "unfinished") {
      return unexplained(false, "its nonce is used, and the search for the transaction goes on");
    }
    if (use !== undefined) {
      return await useFacts(intent, use, confirmedBlock, () => settlementLogs(client, use.transactionHash));
    }
    return unexplained(await expired(), "its nonce is used, but no event shows by which transaction");
  } catch (error) {
    if (!(error instanceof LogsRefused)) throw error;
    return unexplained(await expired(), `its nonce is used, but ${error.message}`);
  }
}

/**
 * Checks a decision against one view of a confirmed block.
 * @returns why it does not hold; undefined if it does
 */
async function doubtAbout(
  decision: Pick<Look, "client" | "token" | "intent" | "confirmedBlock"> & {
    readonly isPaid: boolean;
    readonly use: NonceUse | undefined;
  },
): Promise<string | undefined> {
  const { client, token, intent, confirmedBlock, isPaid, use } = decision;
  const [{ hash, timestamp }, canonical] = await Promise.all([
    client.getBlock({ blockNumber: confirmedBlock }),
    use && client.getBlock({ blockNumber: use.blockNumber }),
  ]);
  if (canonical?.hash !== use?.blockHash) return "the block that used the nonce was replaced";
  if (use === undefined && timestamp < BigInt(intent.validBefore))
    return "the RPC's nodes disagree about the time";
  try {
    const view = await readView(client, intent.key, hash);
    token.readsByHash = true;
    if (view.timestamp !== timestamp) return "the RPC answered with the state of another block";
    if (view.isUsed !== (use !== undefined)) return "the RPC's nodes disagree whether the nonce is used";
    return undefined;
  } catch (error) {
    if (!(error instanceof NoStateByHash)) throw error;
    // An RPC that never reads state by hash can still show what was paid.
    return isPaid && token.readsByHash !== true ? undefined : error.message;
  }
}

async function useFacts(
  intent: PaymentIntent,
  use: NonceUse,
  confirmedBlock: bigint,
  readLogs: () => Promise<readonly Log[] | undefined>,
): Promise<FoundFacts> {
  const { eventName, blockNumber, transactionHash } = use;
  const confirmed = blockNumber <= confirmedBlock;
  if (eventName === "AuthorizationCanceled") return { facts: { nonce: "cancelled", confirmed }, use };
  const logs = confirmed ? await readLogs() : undefined;
  // A node that answers with what it has may have no logs of the transaction, or those of another fork.
  const hasUse = logs !== undefined && findUse(logs, intent)?.blockHash === use.blockHash;
  const facts = {
    nonce: "used",
    confirmed,
    transaction: transactionHash,
    logs: hasUse ? logs : undefined,
  } as const;
  return { facts, use };
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
function isNonceUsed(
  client: PublicClient,
  { key }: Pick<PaymentIntent, "key">,
  blockNumber?: bigint,
): Promise<boolean> {
  return client.readContract({
    address: key.asset as `0x${string}`,
    abi: eip3009ABI,
    functionName: "authorizationState",
    args: [key.payer as `0x${string}`, key.nonce as `0x${string}`],
    ...(blockNumber === undefined ? {} : { blockNumber }),
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
