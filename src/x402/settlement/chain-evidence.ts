import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { GatewayError } from "../../core/errors.ts";
import { oneSpelling, type PaymentIntent, type PaymentKey } from "../../core/payment.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import type { Methods } from "../methods/methods.ts";
import { type Authorization, type AuthorizedPayment, type NonceUse, Unexplained } from "./authorization.ts";
import {
  type Block,
  isNonceUsed,
  NoNonceState,
  NoStateByHash,
  readBlock,
  readHead,
  readView,
} from "./block-view.ts";
import { LogSearch } from "./log-search.ts";
import { decidePayment, type Evidence, type NonceFacts } from "./payment-decision.ts";

/** Names a token. `network` is CAIP-2, `asset` in any letter case. */
type TokenName = Pick<PaymentKey, "network" | "asset">;

/** A token whose chain can be asked. */
interface WatchedToken {
  readonly client: ChainClient;
  /** Blocks that confirm an event, its own included. */
  readonly confirmations: bigint;
  readonly required: boolean;
  readonly search: LogSearch;
  /** Newest block seen, and when. */
  lastHead?: { readonly number: bigint; readonly at: number };
  /** Time of the newest block at the last look, in Unix seconds. */
  lastTime?: bigint;
  /** Set once the RPC has read state by the hash of a block: from then on, a refusal is a node that lacks the block. */
  readsByHash?: true;
}

/** Chains can shrink by a reorganisation between the start block and the settlement. */
const START_MARGIN_BLOCKS = 16n;
/** Age up to which a head is a good start block. */
const START_HEAD_MS = 4_000;
/** Payments seen once as not paid that are remembered; a forgotten one takes another look. */
const MAX_SIGHTINGS = 20_000;
/** Bound of the search for a transaction while a client waits. */
const QUICK_QUERIES = 10;

/** Evidence of payments on the chains of tokens that have an `rpc_url`. */
export class ChainEvidence {
  /** Time between the two looks that it takes to say that a payment was not paid. */
  readonly secondLookAfterMs: number;
  readonly #methods: Methods;
  readonly #rpcTimeoutMs: number;
  readonly #telemetry: Telemetry;
  readonly #watched = new Map<string, WatchedToken>();
  /** First of the two looks that showed a payment as not paid, by fingerprint. */
  readonly #sightings = boundedCache<string, { readonly reason: string; readonly at: number }>(MAX_SIGHTINGS);

  /** @param parts `rpcTimeoutMs` is for one RPC call */
  constructor(parts: {
    readonly methods: Methods;
    readonly tokens: readonly AcceptedToken[];
    readonly rpcTimeoutMs: number;
    readonly secondLookAfterMs: number;
    readonly telemetry?: Telemetry;
  }) {
    this.secondLookAfterMs = parts.secondLookAfterMs;
    this.#methods = parts.methods;
    this.#rpcTimeoutMs = parts.rpcTimeoutMs;
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
    this.watch(parts.tokens);
  }

  /** Adds a reloaded configuration's tokens. Removed ones stay: payments in them may be undecided. */
  watch(tokens: readonly AcceptedToken[]): void {
    for (const token of tokens) {
      const { network, rpcUrl } = token;
      if (rpcUrl === undefined) continue;
      // A token can be listed for each transfer method: the stricter entry counts for both.
      const entries = tokens.filter((other) => tokenKey(other) === tokenKey(token));
      this.#watched.set(tokenKey(token), {
        client: new ChainClient({
          rpcUrl,
          chainId: chainIdOf(network),
          timeoutMs: this.#rpcTimeoutMs,
          observer: { telemetry: this.#telemetry, purpose: "evidence" },
        }),
        confirmations: BigInt(Math.max(...entries.map(({ confirmations }) => confirmations))),
        required: entries.some(({ requireOnchainConfirmation }) => requireOnchainConfirmation),
        search: new LogSearch(),
      });
    }
  }

  /** Reports whether the chain of this token can be asked. */
  covers(token: TokenName): boolean {
    return this.#watched.has(tokenKey(token));
  }

  /** Connects to the chain of a token. @returns undefined when it cannot be asked @throws Error when it does not answer */
  async connect(token: TokenName): Promise<Rpc | undefined> {
    return this.#watched.get(tokenKey(token))?.client.connect();
  }

  /** Returns the time of the newest block at the last look, in Unix milliseconds; undefined before the first look. */
  timeOf(token: TokenName): number | undefined {
    const secs = this.#watched.get(tokenKey(token))?.lastTime;
    return secs === undefined ? undefined : Number(secs) * 1_000;
  }

  /** Reports whether only the chain's word counts for this token. */
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
      const rpc = await known.client.connect();
      const age = performance.now() - (known.lastHead?.at ?? Number.NEGATIVE_INFINITY);
      if (age > START_HEAD_MS) await askHead(rpc, known);
    } catch (error) {
      // An older head is as good a lower bound.
      if (known.lastHead === undefined) throw error;
    }
    const head = known.lastHead?.number ?? 0n;
    return head > START_MARGIN_BLOCKS ? head - START_MARGIN_BLOCKS : 0n;
  }

  /**
   * Looks for the use of an authorization that jobgate has not journalled yet.
   * @returns the transaction that used it, if the search finds it quickly; undefined when it is unused
   * @throws GatewayError `facilitator_unavailable` when the contract that keeps the nonce is needed, and missing
   * @throws Error when the chain cannot be asked
   */
  async findEarlierUse(
    payment: Omit<AuthorizedPayment, "fromBlock">,
  ): Promise<{ readonly transaction?: string } | undefined> {
    const token = this.#watched.get(tokenKey(payment.key));
    if (token === undefined) return undefined;
    const rpc = await token.client.connect();
    const authorization = this.#methods.authorizationOf(payment);
    try {
      if (!(await isNonceUsed(rpc, authorization))) return undefined;
    } catch (error) {
      if (!(error instanceof NoNonceState) || !authorization.needsContract) throw error;
      throw new GatewayError(
        "facilitator_unavailable",
        `A settlement could not be confirmed: ${error.message}. Nothing was charged: try again later.`,
        { cause: error, headers: { "retry-after": "30" } },
      );
    }
    try {
      const use = await token.search.find(rpc, authorization, await askHead(rpc, token), QUICK_QUERIES);
      if (use === undefined || use === "unfinished" || !("transaction" in use.outcome)) return {};
      return { transaction: use.outcome.transaction };
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
      const rpc = await token.client.connect();
      const authorization = this.#methods.authorizationOf(intent);
      const [newest, named] = await Promise.all([
        readBlock(rpc, "latest"),
        transaction === undefined
          ? undefined
          : authorization.useIn(rpc, transaction).catch(ignoreUnexplained),
      ]);
      const head = noteHead(token, newest.number);
      token.lastTime = newest.timestamp;
      const confirmedBlock = head - (token.confirmations - 1n);
      const { facts, use } = await readNonceFacts({ rpc, token, authorization, named, head, confirmedBlock });
      const evidence = decidePayment(facts);
      const isPaid = evidence.kind === "paid";
      if (!isPaid && evidence.kind !== "not_paid") {
        this.#sightings.delete(intent.fingerprint);
        return evidence;
      }
      const seen = named === undefined ? undefined : newest;
      const doubt = await doubtAbout({ rpc, token, authorization, confirmedBlock, isPaid, use, seen });
      if (!isPaid && doubt === undefined) return this.#secondLook(intent, evidence);
      this.#sightings.delete(intent.fingerprint);
      const reason = isPaid ? "the authorization was used for the payment" : evidence.reason;
      if (doubt !== undefined) return { kind: "open", reason: `${reason}, but ${doubt}` };
      if (evidence.kind !== "paid" || use === undefined) return evidence;
      return { ...evidence, blockNumber: use.blockNumber.toString() };
    } catch (error) {
      return { kind: "open", reason: `the chain could not be asked: ${firstLine(error)}`, isUnread: true };
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
  readonly rpc: Rpc;
  readonly token: WatchedToken;
  readonly authorization: Authorization;
  /** Use of the authorization in the transaction that the facilitator named. */
  readonly named: NonceUse | undefined;
  readonly head: bigint;
  readonly confirmedBlock: bigint;
}

/** Facts about a nonce, with its use where one was found. */
interface FoundFacts {
  readonly facts: NonceFacts;
  readonly use?: NonceUse;
}

/** Reads from the chain what the decision needs, and no more. */
async function readNonceFacts(look: Look): Promise<FoundFacts> {
  const { rpc, token, authorization, named, head, confirmedBlock } = look;
  if (named !== undefined) return useFacts(look, named);

  const expired = () => isExpired(rpc, authorization, confirmedBlock);
  if (!(await isNonceUsed(rpc, authorization, head))) {
    return { facts: { nonce: "unused", expired: await expired() } };
  }
  const unexplained = (isExpired: boolean, problem: string): FoundFacts => ({
    facts: { nonce: "used_unexplained", expired: isExpired, problem: `its nonce is used, but ${problem}` },
  });
  try {
    const use =
      (await authorization.findUseByState?.(rpc, head)) ??
      (await token.search.find(rpc, authorization, head));
    if (use === "unfinished") return unexplained(false, "the search for the transaction goes on");
    if (use !== undefined) return await useFacts(look, use);
    return unexplained(await expired(), "no event shows by which transaction");
  } catch (error) {
    if (!(error instanceof Unexplained)) throw error;
    return unexplained(await expired(), error.message);
  }
}

async function useFacts({ rpc, authorization, confirmedBlock }: Look, use: NonceUse): Promise<FoundFacts> {
  const { blockNumber, blockHash, outcome } = use;
  const confirmed = blockNumber <= confirmedBlock;
  if (!confirmed || outcome.kind !== "unread") return { facts: { nonce: "used", confirmed, outcome }, use };
  const read = await authorization.useIn(rpc, outcome.transaction);
  // A node that answers with what it has may have no logs of the transaction, or those of another fork.
  const isSame = read?.blockHash === blockHash;
  return { facts: { nonce: "used", confirmed, outcome: isSame ? read.outcome : outcome }, use };
}

/**
 * Checks a decision against one view of a confirmed block.
 * @returns why it does not hold; undefined if it does
 */
async function doubtAbout(
  decision: Pick<Look, "rpc" | "token" | "authorization" | "confirmedBlock"> & {
    readonly isPaid: boolean;
    readonly use: NonceUse | undefined;
    /** A block read just now. After a search it would be too old. */
    readonly seen: Block | undefined;
  },
): Promise<string | undefined> {
  const { rpc, token, authorization, confirmedBlock, isPaid, use, seen } = decision;
  const confirmed = seen?.number === confirmedBlock ? seen : readBlock(rpc, confirmedBlock);
  const isOlder = use !== undefined && use.blockNumber < confirmedBlock - 1n;
  const [{ hash, parentHash, timestamp }, older] = await Promise.all([
    confirmed,
    isOlder ? readBlock(rpc, use.blockNumber) : undefined,
  ]);
  const canonical = older?.hash ?? (use?.blockNumber === confirmedBlock ? hash : parentHash);
  if (use !== undefined && canonical !== use.blockHash) return "the block that used the nonce was replaced";
  if (use === undefined && timestamp < authorization.endsAt) return "the RPC's nodes disagree about the time";
  try {
    const view = await readView(rpc, authorization, hash);
    token.readsByHash = true;
    if (view.timestamp !== timestamp) return "the RPC answered with the state of another block";
    if (view.isUsed === undefined) return "no contract keeps the nonce";
    if (view.isUsed !== (use !== undefined)) return "the RPC's nodes disagree whether the nonce is used";
    return undefined;
  } catch (error) {
    if (!(error instanceof NoStateByHash)) throw error;
    // An RPC that never reads state by hash can still show what was paid.
    return isPaid && token.readsByHash !== true ? undefined : error.message;
  }
}

async function askHead(rpc: Rpc, token: WatchedToken): Promise<bigint> {
  return noteHead(token, await readHead(rpc));
}

function noteHead(token: WatchedToken, number: bigint): bigint {
  token.lastHead = { number, at: performance.now() };
  return number;
}

async function isExpired(rpc: Rpc, { endsAt }: Authorization, confirmedBlock: bigint): Promise<boolean> {
  if (confirmedBlock < 0n) return false;
  const { timestamp } = await readBlock(rpc, confirmedBlock);
  return timestamp >= endsAt;
}

/** A named transaction that cannot be explained may have nothing to do with the payment: the search finds the right one. */
function ignoreUnexplained(error: unknown): undefined {
  if (!(error instanceof Unexplained)) throw error;
}

function tokenKey({ network, asset }: TokenName): string {
  return `${network}/${oneSpelling(asset)}`;
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}
