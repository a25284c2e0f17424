import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import { asHex, asNumber, RpcError, toHex } from "../../chain/rpc.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { RawLog } from "../../x402/settlement/chain-logs.ts";

/** Fields of the newest block that sending uses. */
export interface Head {
  readonly number: bigint;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly baseFeePerGas: bigint;
}

/** Receipt of a mined transaction. */
export interface Receipt {
  readonly hash: string;
  readonly status: "success" | "reverted";
  readonly blockNumber: bigint;
  readonly blockHash: string;
  /** Wei that it cost its sender; undefined if the node does not report it. */
  readonly fee?: bigint;
  readonly logs: readonly RawLog[];
}

/** Most gas of one settlement, because a payer that is a contract decides how much its signature costs to check. */
export const MAX_SETTLEMENT_GAS = 500_000n;
/** Selector of `balanceOf(address)`. */
const BALANCE_OF = "0x70a08231";
/** Tip where the node does not propose one: 0.001 gwei. */
const DEFAULT_TIP_WEI = 1_000_000n;

/** Age up to which the node's tip is used. */
const TIP_AGE_MS = 1_000;
const MAX_PLAIN_ACCOUNTS = 1_000;

/** One chain, with the calls that it takes to send transactions and to follow them. */
export class SettlerChain {
  readonly chainId: number;
  readonly #client: ChainClient;
  /** Times at which accounts had no code. */
  readonly #plainAt = boundedCache<string, number>(MAX_PLAIN_ACCOUNTS);
  #tip: { readonly wei: bigint; readonly readAt: number } | undefined;

  constructor(parts: {
    readonly network: string;
    readonly rpcUrl: string;
    readonly timeoutMs: number;
    readonly telemetry: Telemetry;
  }) {
    const { network, rpcUrl, timeoutMs, telemetry } = parts;
    this.chainId = chainIdOf(network);
    this.#client = new ChainClient({
      rpcUrl,
      chainId: this.chainId,
      timeoutMs,
      observer: { telemetry, purpose: "settlement" },
    });
  }

  /**
   * Calls a contract with the gas that a settlement may use. Default: no `from`.
   * @throws RpcError when the contract or the node refuses; another error when the RPC does not answer
   */
  async callContract(to: string, data: string, from?: string): Promise<string> {
    const call = { to, data, gas: toHex(MAX_SETTLEMENT_GAS), from };
    return asHex(await this.#call("eth_call", [call, "latest"]));
  }

  /** @param plainAgeMs age up to which an answer that the account has no code is used */
  async code(address: string, plainAgeMs = 0): Promise<`0x${string}`> {
    const readAt = performance.now();
    if (readAt - (this.#plainAt.get(address) ?? Number.NEGATIVE_INFINITY) < plainAgeMs) return "0x";
    const code = asHex(await this.#call("eth_getCode", [address, "latest"])) as `0x${string}`;
    if (code === "0x") this.#plainAt.set(address, readAt);
    else this.#plainAt.delete(address);
    return code;
  }

  async balance(address: string): Promise<bigint> {
    return asNumber(await this.#call("eth_getBalance", [address, "latest"]));
  }

  /** Units of a token that an account holds. */
  async tokenBalance(token: string, account: string): Promise<bigint> {
    const data = `${BALANCE_OF}${account.slice(2).toLowerCase().padStart(64, "0")}`;
    return asNumber(await this.#call("eth_call", [{ to: token, data }, "latest"]));
  }

  async head(): Promise<Head> {
    const { number, timestamp, baseFeePerGas } = await this.#block("latest");
    return {
      number: asNumber(number),
      timestamp: Number(asNumber(timestamp)),
      baseFeePerGas: asNumber(baseFeePerGas),
    };
  }

  /** Tip for each unit of gas that the node proposes, in wei, at most a second old. */
  async tip(): Promise<bigint> {
    const readAt = performance.now();
    if (this.#tip === undefined || readAt - this.#tip.readAt >= TIP_AGE_MS)
      this.#tip = { wei: await this.#readTip(), readAt };
    return this.#tip.wei;
  }

  async #readTip(): Promise<bigint> {
    try {
      return asNumber(await this.#call("eth_maxPriorityFeePerGas", []));
    } catch (error) {
      if (error instanceof RpcError) return DEFAULT_TIP_WEI;
      throw error;
    }
  }

  /** @throws RpcError, which distinguishes a revert from a refusal by the node */
  async estimateGas(call: {
    readonly from: string;
    readonly to: string;
    readonly data: string;
  }): Promise<bigint> {
    return asNumber(await this.#call("eth_estimateGas", [call]));
  }

  async broadcast(raw: string): Promise<void> {
    await this.#call("eth_sendRawTransaction", [raw]);
  }

  /** Number of the account's mined transactions, which is its first unused nonce. */
  async transactionCount(account: string, block: bigint | "latest" = "latest"): Promise<number> {
    const named = block === "latest" ? block : toHex(block);
    return Number(asNumber(await this.#call("eth_getTransactionCount", [account, named])));
  }

  async blockHash(number: bigint): Promise<string> {
    return asHex((await this.#block(toHex(number))).hash);
  }

  /** Returns the receipt of whichever transaction with a nonce was mined. */
  async receiptOfAny(hashes: readonly string[]): Promise<Receipt | undefined> {
    for (const hash of hashes) {
      const receipt = await this.#receipt(hash);
      if (receipt !== undefined) return receipt;
    }
    return undefined;
  }

  /**
   * Finds the transaction that used a nonce, in the blocks up to a given block. The RPC has no method for this, so the
   * search finds the block in which the account's count passed the nonce.
   * @returns its hash; undefined while the nonce is unused at that block
   * @throws RpcError when the node no longer has the state of that time
   */
  async transactionWithNonce(account: string, nonce: number, upTo: bigint): Promise<string | undefined> {
    const isUsedAt = async (block: bigint) => (await this.transactionCount(account, block)) > nonce;
    if (upTo < 0n || !(await isUsedAt(upTo))) return undefined;
    let used = upTo;
    let unused = upTo;
    for (let step = 1n; unused === used || (unused > 0n && (await isUsedAt(unused))); step *= 2n) {
      used = unused;
      unused = unused > step ? unused - step : 0n;
    }
    while (used - unused > 1n) {
      const middle = (used + unused) / 2n;
      if (await isUsedAt(middle)) used = middle;
      else unused = middle;
    }
    const { transactions } = await this.#block(toHex(used), true);
    const found = (transactions as readonly { from: string; nonce: string; hash: string }[]).find(
      (one) => one.from.toLowerCase() === account.toLowerCase() && asNumber(one.nonce) === BigInt(nonce),
    );
    return found && asHex(found.hash);
  }

  async #receipt(hash: string): Promise<Receipt | undefined> {
    const receipt = await this.#call("eth_getTransactionReceipt", [hash]);
    if (typeof receipt !== "object" || receipt === null) return undefined;
    const { status, blockNumber, blockHash, logs } = receipt as Record<string, unknown>;
    const fee = feeOf(receipt);
    return {
      hash,
      ...(fee === undefined ? {} : { fee }),
      status: asNumber(status) === 1n ? "success" : "reverted",
      blockNumber: asNumber(blockNumber),
      blockHash: asHex(blockHash),
      logs: logs as readonly RawLog[],
    };
  }

  async #block(which: string, withTransactions = false): Promise<Record<string, unknown>> {
    const block = await this.#call("eth_getBlockByNumber", [which, withTransactions]);
    if (typeof block !== "object" || block === null) throw new Error("the RPC does not have the block");
    return block as Record<string, unknown>;
  }

  async #call(method: string, params: readonly unknown[]): Promise<unknown> {
    return (await this.#client.connect()).call(method, params);
  }
}

/** Fee of a mined transaction. Rollups built on the OP Stack add what their data costs on the chain below. */
export function feeOf(receipt: object): bigint | undefined {
  const { gasUsed, effectiveGasPrice, l1Fee } = receipt as Record<string, unknown>;
  if (typeof gasUsed !== "string" || typeof effectiveGasPrice !== "string") return undefined;
  const dataFee = typeof l1Fee === "string" ? asNumber(l1Fee) : 0n;
  return asNumber(gasUsed) * asNumber(effectiveGasPrice) + dataFee;
}
