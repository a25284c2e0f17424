import { asNumber, type Rpc } from "../../chain/rpc.ts";
import {
  type Authorization,
  type AuthorizedPayment,
  type Collector,
  type NonceUse,
  Unexplained,
  type UseOutcome,
} from "../../x402/settlement/authorization.ts";
import { type Block, NoStateByHash, readViewOf } from "../../x402/settlement/block-view.ts";
import {
  addressWord,
  asLogs,
  isOffered,
  type MinedLog,
  numberWord,
  type RawLog,
  readTransfer,
  readWord,
  successfulLogs,
  TRANSFER_TOPIC,
} from "../../x402/settlement/chain-logs.ts";
import { readCalls } from "../../x402/settlement/traced-calls.ts";
import { bitmapCall, PERMIT2_CONTRACT } from "./contracts.ts";
import { EXACT_PROXY, findProxy, type X402Proxy } from "./proxies.ts";
import { readPermit } from "./proxy-calls.ts";

/** `UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask)` */
const INVALIDATION_TOPIC = "0x3704902f963766a4e561bbaab6e6cdc1b1dd12f6e9e99648da8843b3f46b918d";

/**
 * Permit2 keeps a bit for each nonce of an owner, for all tokens and spenders, and emits nothing when a nonce is spent.
 * So the use is a successful call to the proxy that names the owner and the nonce. There is at most one such call,
 * because Permit2 accepts a nonce once. The logs of that call show the transfer. A transfer elsewhere in the
 * transaction pays for something else.
 */
export class Permit2Authorization implements Authorization {
  readonly payment: AuthorizedPayment;
  readonly validAfter: bigint;
  readonly endsAt: bigint;
  readonly nonceCall: Authorization["nonceCall"];
  /** True, because another contract at Permit2's address could accept all calls. */
  readonly needsContract = true;
  readonly logFilters: Authorization["logFilters"];
  readonly #nonce: bigint;
  /** Contract that settles the payment. */
  readonly #collector: Collector;
  /** True if the contract moves any part of the signed amount. */
  readonly #isCeiling: boolean;

  /** @param collector contract that settles it in place of x402's proxies */
  constructor(payment: AuthorizedPayment, collector?: Collector) {
    this.payment = payment;
    const { key, payload, payTo, validBefore } = payment;
    const signed = JSON.parse(payload) as {
      payload?: { permit2Authorization?: { spender?: string; witness?: { validAfter?: string } } };
    };
    const permit = signed.payload?.permit2Authorization;
    // The match with the offer has ensured that the spender is one of x402's proxies.
    const proxy = findProxy({ address: permit?.spender ?? "" }) ?? EXACT_PROXY;
    this.#collector = collector ?? collectorOf(payment, proxy);
    this.#isCeiling = collector === undefined && proxy.ceiling !== undefined;
    this.#nonce = BigInt(key.nonce);
    this.validAfter = BigInt(permit?.witness?.validAfter ?? 0);
    // Permit2 accepts a permit exactly at its deadline; EIP-3009 ends before `validBefore`.
    this.endsAt = BigInt(validBefore) + 1n;
    const payerWord = addressWord(key.payer);
    this.nonceCall = bitmapCall(payerWord, this.#nonce);
    const topics = [TRANSFER_TOPIC, `0x${payerWord}`, `0x${addressWord(payTo)}`];
    this.logFilters = [{ address: key.asset, topics }];
  }

  isUsed(bitmap: bigint): boolean {
    return ((bitmap >> (this.#nonce & 255n)) & 1n) === 1n;
  }

  useIn(rpc: Rpc, transaction: string): Promise<NonceUse | undefined> {
    return this.#useIn(rpc, transaction, { isMined: false });
  }

  /**
   * @param options `isMined` is true if a block's logs have shown the transaction, so that a node without the
   * transaction lags behind
   */
  async #useIn(
    rpc: Rpc,
    transaction: string,
    { isMined }: { readonly isMined: boolean },
  ): Promise<NonceUse | undefined> {
    const [logs, sent] = await Promise.all([
      successfulLogs(rpc, transaction),
      rpc.call("eth_getTransactionByHash", [transaction]),
    ]);
    if (logs === undefined && isMined) throw new Error("the RPC does not have the transaction's receipt");
    // The contract emits an event in each call that settles.
    const { contract } = this.#collector;
    const isOfContract = ({ address }: RawLog) => address.toLowerCase() === contract;
    const marks = logs?.filter(isOfContract) ?? [];
    const { blockNumber, blockHash } = marks[0] ?? {};
    if (logs === undefined || !blockNumber || !blockHash) return undefined;
    const { to, input } = (sent ?? {}) as Record<string, unknown>;
    if (typeof input !== "string") throw new Error("the RPC does not have the transaction");
    const isDirect = typeof to === "string" && to.toLowerCase() === contract;
    const calls = isDirect ? [{ input, logs }] : await readCalls(rpc, transaction, contract);
    if (calls.flatMap(({ logs }) => logs).filter(isOfContract).length !== marks.length) {
      throw new Unexplained(
        "a contract may have used it, and the RPC's trace does not show the logs of its calls",
      );
    }
    const call = calls.find(({ input }) => this.#collector.collects(input));
    if (call === undefined) return undefined;
    return {
      blockNumber: asNumber(blockNumber),
      blockHash,
      outcome: this.#outcomeOf(call.logs, transaction),
    };
  }

  #outcomeOf(logs: readonly RawLog[], transaction: string): UseOutcome {
    const moved = logs.flatMap((log) => this.#paidBy(log) ?? []);
    const offered = BigInt(this.payment.amount);
    if (moved.includes(offered)) return { kind: "paid", transaction };
    const [amount] = moved;
    if (amount === undefined) return { kind: "used_otherwise" };
    return { kind: "paid", transaction, amount: amount.toString() };
  }

  async useAmong(rpc: Rpc, logs: readonly MinedLog[]): Promise<NonceUse | undefined> {
    const transactions = new Set(
      logs.flatMap((log) => (this.#paidBy(log) !== undefined ? (log.transactionHash ?? []) : [])),
    );
    let undecidable: Unexplained | undefined;
    for (const transaction of transactions) {
      try {
        const use = await this.#useIn(rpc, transaction, { isMined: true });
        if (use !== undefined) return use;
      } catch (error) {
        if (!(error instanceof Unexplained)) throw error;
        undecidable = error;
      }
    }
    if (undecidable !== undefined) throw undecidable;
    return undefined;
  }

  /**
   * Searches the block in which the nonce became used. If no transaction in the block settled the payment, no transaction
   * ever will. An RPC that no longer has the state of that time can still show, by its logs, what was paid.
   */
  async findUseByState(rpc: Rpc, head: bigint): Promise<NonceUse | undefined> {
    const block = await this.#blockOfUse(rpc, head);
    return block && this.#useInBlock(rpc, block);
  }

  /**
   * Searches backwards in growing steps, because nodes keep only the state of recent blocks. Then halves the range that
   * contains the block.
   * @returns undefined when the nonce was used before the search starts, or the state is gone
   */
  async #blockOfUse(rpc: Rpc, head: bigint): Promise<Block | undefined> {
    const { fromBlock } = this.payment;
    if (fromBlock === undefined) return undefined;
    const start = BigInt(fromBlock);
    const view = (block: bigint) => readViewOf(rpc, this, block < start ? start : block);
    try {
      let after = await view(head);
      let before = after;
      for (let step = 1n; before.isUsed; step *= 2n) {
        if (before.number <= start) return undefined;
        after = before;
        before = await view(before.number - step);
      }
      while (after.number - before.number > 1n) {
        const middle = await view((before.number + after.number) / 2n);
        if (middle.isUsed) after = middle;
        else before = middle;
      }
      // The blocks follow each other, unless a reorganisation replaced one in the meantime, or the RPC's nodes disagree.
      if (after.parentHash !== before.hash) throw new Error("the chain changed during a search");
      return after;
    } catch (error) {
      if (error instanceof NoStateByHash) return undefined;
      throw error;
    }
  }

  async #useInBlock(rpc: Rpc, { hash, number }: Block): Promise<NonceUse> {
    const { asset } = this.payment.key;
    const logs = asLogs(
      await rpc.call("eth_getLogs", [{ blockHash: hash, address: [asset, PERMIT2_CONTRACT] }]),
    );
    const use = await this.useAmong(rpc, logs);
    if (use !== undefined && use.blockHash !== hash) throw new Error("the chain changed during a search");
    const kind = logs.some((log) => this.#isCancelledBy(log)) ? "cancelled" : "used_otherwise";
    return use ?? { blockNumber: number, blockHash: hash, outcome: { kind } };
  }

  #isCancelledBy({ address, topics, data }: RawLog): boolean {
    const [owner, word, mask] = [readWord(topics[1]), readWord(data, 0), readWord(data, 1)];
    return (
      address.toLowerCase() === PERMIT2_CONTRACT &&
      topics[0] === INVALIDATION_TOPIC &&
      owner === addressWord(this.payment.key.payer) &&
      word === numberWord(this.#nonce >> 8n) &&
      mask !== undefined &&
      this.isUsed(BigInt(`0x${mask}`))
    );
  }

  /**
   * Returns the units of a log's transfer from payer to seller. If the payer signed a ceiling, the proxy moves the
   * amount that the facilitator names; otherwise it moves the signed amount.
   */
  #paidBy(log: RawLog): bigint | undefined {
    if (log.address.toLowerCase() !== this.payment.key.asset) return undefined;
    const transfer = readTransfer(log);
    if (transfer === undefined) return undefined;
    const { from, to, value } = transfer;
    if (isOffered(transfer, this.payment)) return value;
    const isOfSeller = from === this.payment.key.payer && to === this.payment.payTo;
    return this.#isCeiling && isOfSeller && value > 0n ? value : undefined;
  }
}

/** Returns the proxy of x402 that settles a payment, as a collector. */
function collectorOf({ key }: AuthorizedPayment, { address }: X402Proxy): Collector {
  return {
    contract: address,
    collects(input) {
      const permit = readPermit(input);
      return permit?.payer === key.payer && permit.nonce === key.nonce;
    },
  };
}
