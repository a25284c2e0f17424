import { PERMIT2_ADDRESS } from "@x402/evm";
import { asNumber, type Rpc } from "../../chain/rpc.ts";
import { GAS_SPONSORING } from "../wire/gas-sponsoring.ts";
import { PERMIT2_PROXY, UPTO_PROXY } from "../wire/payer-signature.ts";
import {
  type Authorization,
  type AuthorizedPayment,
  type NonceUse,
  Unexplained,
  type UseOutcome,
} from "./authorization.ts";
import { type Block, callForWord, NoStateByHash, readViewOf } from "./block-view.ts";
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
  wordAddress,
} from "./chain-logs.ts";
import { readCalls } from "./traced-calls.ts";

const PERMIT2 = PERMIT2_ADDRESS.toLowerCase();
/** `nonceBitmap(address,uint256)` */
const NONCE_BITMAP = "0x4fe02b44";

/** `balanceOf(address)` */
const BALANCE_OF = "0x70a08231";
/** `allowance(address,address)` */
const ALLOWANCE = "0xdd62ed3e";

/** Positions of words in the call data of the proxies' functions that settle, by selector. */
const POSITIONS: Readonly<Record<string, { readonly nonce: number; readonly owner: number }>> = {
  "0x13cd3b53": { nonce: 2, owner: 4 }, // settle(permit, owner, witness, signature)
  "0xfa340378": { nonce: 7, owner: 9 }, // settleWithPermit(permit2612, permit, owner, witness, signature)
  "0xff11e7b4": { nonce: 2, owner: 5 }, // settle(permit, amount, owner, witness, signature)
  "0x016c1748": { nonce: 7, owner: 10 }, // settleWithPermit(permit2612, permit, amount, owner, witness, signature)
};
/** Characters of a selector, `0x` included. */
const SELECTOR_LENGTH = 10;

/** `UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask)` */
const INVALIDATION_TOPIC = "0x3704902f963766a4e561bbaab6e6cdc1b1dd12f6e9e99648da8843b3f46b918d";

/**
 * Permit2 keeps a bit for each nonce of an owner, for all tokens and spenders, and emits nothing when one is spent. So
 * the use is a successful call to the proxy that names owner and nonce: Permit2 accepts a nonce once, so there is one at
 * most. The logs of that call show the transfer. A transfer elsewhere in the transaction pays for something else.
 */
export class Permit2Authorization implements Authorization {
  readonly payment: AuthorizedPayment;
  readonly validAfter: bigint;
  readonly endsAt: bigint;
  readonly nonceCall: Authorization["nonceCall"];
  readonly logFilters: Authorization["logFilters"];
  readonly #nonce: bigint;
  /** Contract that settles it. */
  readonly #proxy: string;

  constructor(payment: AuthorizedPayment) {
    this.payment = payment;
    const { key, payload, payTo, validBefore } = payment;
    const signed = JSON.parse(payload) as {
      payload?: { permit2Authorization?: { spender?: string; witness?: { validAfter?: string } } };
    };
    const permit = signed.payload?.permit2Authorization;
    // The offer that it answered made sure that the spender is one of x402's proxies.
    this.#proxy = permit?.spender?.toLowerCase() === UPTO_PROXY ? UPTO_PROXY : PERMIT2_PROXY;
    this.#nonce = BigInt(key.nonce);
    this.validAfter = BigInt(permit?.witness?.validAfter ?? 0);
    // Permit2 accepts a permit at its very deadline; EIP-3009 ends before `validBefore`.
    this.endsAt = BigInt(validBefore) + 1n;
    const payerWord = addressWord(key.payer);
    const word = numberWord(this.#nonce >> 8n);
    this.nonceCall = { to: PERMIT2, data: `${NONCE_BITMAP}${payerWord}${word}` };
    const topics = [TRANSFER_TOPIC, `0x${payerWord}`, `0x${addressWord(payTo)}`];
    this.logFilters = [{ address: key.asset, topics }];
  }

  isUsed(bitmap: bigint): boolean {
    return ((bitmap >> (this.#nonce & 255n)) & 1n) === 1n;
  }

  useIn(rpc: Rpc, transaction: string): Promise<NonceUse | undefined> {
    return this.#useIn(rpc, transaction, { isMined: false });
  }

  /** @param options `isMined` when a block's logs have shown the transaction: a node without it lags behind */
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
    // The proxy emits an event in each call that settles.
    const isOfProxy = ({ address }: RawLog) => address.toLowerCase() === this.#proxy;
    const marks = logs?.filter(isOfProxy) ?? [];
    const { blockNumber, blockHash } = marks[0] ?? {};
    if (logs === undefined || !blockNumber || !blockHash) return undefined;
    const { to, input } = (sent ?? {}) as Record<string, unknown>;
    if (typeof input !== "string") throw new Error("the RPC does not have the transaction");
    const isDirect = typeof to === "string" && to.toLowerCase() === this.#proxy;
    const calls = isDirect ? [{ input, logs }] : await readCalls(rpc, transaction, this.#proxy);
    if (calls.flatMap(({ logs }) => logs).filter(isOfProxy).length !== marks.length) {
      throw new Unexplained(
        "a contract may have used it, and the RPC's trace does not show the logs of its calls",
      );
    }
    const call = calls.find(({ input }) => this.#isSettledBy(input));
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
   * Looks into the block in which the nonce became used: if no transaction in it settled the payment, none ever does. An
   * RPC that no longer has the state of that time can still show, by its logs, what was paid.
   */
  async findUseByState(rpc: Rpc, head: bigint): Promise<NonceUse | undefined> {
    const block = await this.#blockOfUse(rpc, head);
    return block && this.#useInBlock(rpc, block);
  }

  /**
   * Searches backwards in growing steps, because nodes keep the state of recent blocks only, and then by halving.
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
      // Two blocks in a row, unless a reorganisation replaced one meanwhile, or the RPC's nodes disagree.
      if (after.parentHash !== before.hash) throw new Error("the chain changed during a search");
      return after;
    } catch (error) {
      if (error instanceof NoStateByHash) return undefined;
      throw error;
    }
  }

  async #useInBlock(rpc: Rpc, { hash, number }: Block): Promise<NonceUse> {
    const { asset } = this.payment.key;
    const logs = asLogs(await rpc.call("eth_getLogs", [{ blockHash: hash, address: [asset, PERMIT2] }]));
    const use = await this.useAmong(rpc, logs);
    if (use !== undefined && use.blockHash !== hash) throw new Error("the chain changed during a search");
    const kind = logs.some((log) => this.#isCancelledBy(log)) ? "cancelled" : "used_otherwise";
    return use ?? { blockNumber: number, blockHash: hash, outcome: { kind } };
  }

  #isSettledBy(input: string): boolean {
    const { payer, nonce } = this.payment.key;
    const permit = readPermit(input);
    return permit?.payer === payer && permit.nonce === nonce;
  }

  #isCancelledBy({ address, topics, data }: RawLog): boolean {
    const [owner, word, mask] = [readWord(topics[1]), readWord(data, 0), readWord(data, 1)];
    return (
      address.toLowerCase() === PERMIT2 &&
      topics[0] === INVALIDATION_TOPIC &&
      owner === addressWord(this.payment.key.payer) &&
      word === numberWord(this.#nonce >> 8n) &&
      mask !== undefined &&
      this.isUsed(BigInt(`0x${mask}`))
    );
  }

  /**
   * Returns the units of a log's transfer from payer to seller. The proxy of the scheme `upto` moves whatever amount the
   * facilitator names, up to the ceiling; the other proxy moves the signed amount.
   */
  #paidBy(log: RawLog): bigint | undefined {
    if (log.address.toLowerCase() !== this.payment.key.asset) return undefined;
    const transfer = readTransfer(log);
    if (transfer === undefined) return undefined;
    const { from, to, value } = transfer;
    if (isOffered(transfer, this.payment)) return value;
    const isOfSeller = from === this.payment.key.payer && to === this.payment.payTo;
    return this.#proxy === UPTO_PROXY && isOfSeller && value > 0n ? value : undefined;
  }
}

/** Reads whose permit with which nonce a call to one of the proxies settles. @returns undefined for another call */
export function readPermit(input: string): { readonly payer: string; readonly nonce: string } | undefined {
  const at = POSITIONS[input.slice(0, SELECTOR_LENGTH)];
  if (at === undefined) return undefined;
  const words = `0x${input.slice(SELECTOR_LENGTH)}`;
  const [nonce, owner] = [readWord(words, at.nonce), readWord(words, at.owner)];
  if (nonce === undefined || owner === undefined) return undefined;
  return { payer: wordAddress(owner), nonce: BigInt(`0x${nonce}`).toString() };
}

/**
 * Looks for what keeps a payment's ceiling from being charged: its payer may have moved his tokens or taken back Permit2's
 * allowance, and another seller may have used the authorization.
 */
export async function findPermit2Shortfall(
  rpc: Rpc,
  payment: AuthorizedPayment,
): Promise<string | undefined> {
  const { amount } = payment;
  const authorization = new Permit2Authorization(payment);
  const [{ balance, allowance }, bitmap] = await Promise.all([
    readPermit2Funds(rpc, payment),
    callForWord(rpc, authorization.nonceCall),
  ]);
  const isLess = (amountOfPayer: bigint | undefined) =>
    amountOfPayer !== undefined && amountOfPayer < BigInt(amount);
  if (bitmap !== undefined && authorization.isUsed(bitmap))
    return "the payer's authorization was used elsewhere";
  if (isLess(balance)) return "the payer's balance is less than the ceiling";
  if (isLess(allowance)) return "the payer's allowance for Permit2 is less than the ceiling";
  return undefined;
}

/**
 * Reads a payer's balance of a token and allowance for Permit2. Each is undefined when the token does not answer, the
 * allowance also when a facilitator that sponsors gas gives the payer's approval with the settlement.
 */
export async function readPermit2Funds(
  rpc: Rpc,
  { key, payload }: Pick<AuthorizedPayment, "key" | "payload">,
): Promise<{ readonly balance: bigint | undefined; readonly allowance: bigint | undefined }> {
  const payer = addressWord(key.payer);
  const { extensions = {} } = JSON.parse(payload) as { extensions?: object };
  const isSponsored = Object.keys(GAS_SPONSORING).some((name) => name in extensions);
  const [balance, allowance] = await Promise.all([
    callForWord(rpc, { to: key.asset, data: `${BALANCE_OF}${payer}` }),
    isSponsored
      ? undefined
      : callForWord(rpc, { to: key.asset, data: `${ALLOWANCE}${payer}${addressWord(PERMIT2)}` }),
  ]);
  return { balance, allowance };
}

/** Reports whether Permit2 answers at its address, and a contract is at that of x402's proxy for a scheme. */
export async function hasPermit2(rpc: Rpc, scheme: "exact" | "upto"): Promise<boolean> {
  const anyNonce = { to: PERMIT2, data: `${NONCE_BITMAP}${numberWord(1n)}${numberWord(0n)}` };
  const [bitmap, proxy] = await Promise.all([
    callForWord(rpc, anyNonce),
    rpc.call("eth_getCode", [scheme === "upto" ? UPTO_PROXY : PERMIT2_PROXY, "latest"]),
  ]);
  return bitmap !== undefined && proxy !== "0x";
}
