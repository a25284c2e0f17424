import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import type { Rpc } from "../../chain/rpc.ts";
import { GatewayError } from "../../core/errors.ts";
import type { PaymentIntent } from "../../core/payment.ts";
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
import type { TokenEvidence, TokenWatch } from "./token-evidence.ts";

/** State of a token's chain, from earlier observations. */
interface ChainState {
  readonly search: LogSearch;
  /** Newest block that was seen, and the time at which it was seen. */
  lastHead?: { readonly number: bigint; readonly at: number };
  /** Set once the RPC has read state by the hash of a block. A later refusal then means that a node lacks the block. */
  readsByHash?: true;
}

/**
 * Margin for a reorganisation of the chain between the start block and the settlement, because a reorganisation can
 * shorten the chain.
 */
const START_MARGIN_BLOCKS = 16n;
/** Age up to which a known head is used as a start block. */
const START_HEAD_MS = 4_000;
/** Bound of the search for a transaction while a client waits. */
const QUICK_QUERIES = 10;

/** Evidence of payments on an EVM chain: the nonces of authorizations. */
export class EvmEvidence implements TokenEvidence {
  readonly #client: ChainClient;
  readonly #confirmations: bigint;
  readonly #authorizationOf: (payment: AuthorizedPayment) => Authorization;
  readonly #state: ChainState = { search: new LogSearch() };
  #lastTime: bigint | undefined;

  /** @param authorizationOf returns the authorization of a payment by any transfer method of the token */
  constructor(watch: TokenWatch, authorizationOf: (payment: AuthorizedPayment) => Authorization) {
    const { token, confirmations, rpcTimeoutMs, telemetry } = watch;
    this.#client = new ChainClient({
      rpcUrl: token.rpcUrl,
      chainId: chainIdOf(token.network),
      timeoutMs: rpcTimeoutMs,
      observer: { telemetry, purpose: "evidence" },
    });
    this.#confirmations = confirmations;
    this.#authorizationOf = authorizationOf;
  }

  get lastTime(): bigint | undefined {
    return this.#lastTime;
  }

  connect(): Promise<Rpc> {
    return this.#client.connect();
  }

  async startBlock(): Promise<bigint> {
    const state = this.#state;
    try {
      const rpc = await this.#client.connect();
      const age = performance.now() - (state.lastHead?.at ?? Number.NEGATIVE_INFINITY);
      if (age > START_HEAD_MS) await askHead(rpc, state);
    } catch (error) {
      // An older head is an equally valid lower bound.
      if (state.lastHead === undefined) throw error;
    }
    const head = state.lastHead?.number ?? 0n;
    return head > START_MARGIN_BLOCKS ? head - START_MARGIN_BLOCKS : 0n;
  }

  async findEarlierUse(
    payment: Omit<AuthorizedPayment, "fromBlock">,
  ): Promise<{ readonly transaction?: string } | undefined> {
    const rpc = await this.#client.connect();
    const authorization = this.#authorizationOf(payment);
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
      const { search } = this.#state;
      const use = await search.find(rpc, authorization, await askHead(rpc, this.#state), QUICK_QUERIES);
      if (use === undefined || use === "unfinished" || !("transaction" in use.outcome)) return {};
      return { transaction: use.outcome.transaction };
    } catch {
      return {};
    }
  }

  /**
   * Nodes behind one RPC address can disagree. So a decision requires a confirmed block whose hash, time and state come from
   * one view.
   */
  async look(intent: PaymentIntent, transaction?: string): Promise<Evidence> {
    const token = this.#state;
    const rpc = await this.#client.connect();
    const authorization = this.#authorizationOf(intent);
    const [newest, named] = await Promise.all([
      readBlock(rpc, "latest"),
      transaction === undefined ? undefined : authorization.useIn(rpc, transaction).catch(ignoreUnexplained),
    ]);
    const head = noteHead(token, newest.number);
    this.#lastTime = newest.timestamp;
    const confirmedBlock = head - (this.#confirmations - 1n);
    const { facts, use } = await readNonceFacts({ rpc, token, authorization, named, head, confirmedBlock });
    const evidence = decidePayment(facts);
    const isPaid = evidence.kind === "paid";
    if (!isPaid && evidence.kind !== "not_paid") return evidence;
    const seen = named === undefined ? undefined : newest;
    const doubt = await doubtAbout({ rpc, token, authorization, confirmedBlock, isPaid, use, seen });
    const reason = isPaid ? "the authorization was used for the payment" : evidence.reason;
    if (doubt !== undefined) return { kind: "open", reason: `${reason}, but ${doubt}` };
    if (evidence.kind !== "paid" || use === undefined) return evidence;
    return { ...evidence, blockNumber: use.blockNumber.toString() };
  }
}

/** Inputs of one observation of a payment. */
interface Look {
  readonly rpc: Rpc;
  readonly token: ChainState;
  readonly authorization: Authorization;
  /** Use of the authorization in the transaction that the facilitator named. */
  readonly named: NonceUse | undefined;
  readonly head: bigint;
  readonly confirmedBlock: bigint;
}

/** Facts about a nonce, with its use if one was found. */
interface FoundFacts {
  readonly facts: NonceFacts;
  readonly use?: NonceUse;
}

/** Reads the facts that the decision needs from the chain. */
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
  // A node that lags may have no logs of the transaction, or the logs of another fork.
  const isSame = read?.blockHash === blockHash;
  return { facts: { nonce: "used", confirmed, outcome: isSame ? read.outcome : outcome }, use };
}

/**
 * Checks a decision against one view of a confirmed block.
 * @returns the reason for doubt; undefined if the view confirms the decision
 */
async function doubtAbout(
  decision: Pick<Look, "rpc" | "token" | "authorization" | "confirmedBlock"> & {
    readonly isPaid: boolean;
    readonly use: NonceUse | undefined;
    /** A block that was just read. After a search, the block would be too old. */
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

async function askHead(rpc: Rpc, token: ChainState): Promise<bigint> {
  return noteHead(token, await readHead(rpc));
}

function noteHead(token: ChainState, number: bigint): bigint {
  token.lastHead = { number, at: performance.now() };
  return number;
}

async function isExpired(rpc: Rpc, { endsAt }: Authorization, confirmedBlock: bigint): Promise<boolean> {
  if (confirmedBlock < 0n) return false;
  const { timestamp } = await readBlock(rpc, confirmedBlock);
  return timestamp >= endsAt;
}

/** A named transaction that cannot be explained may be unrelated to the payment. The search finds the right transaction. */
function ignoreUnexplained(error: unknown): undefined {
  if (!(error instanceof Unexplained)) throw error;
}
