import { CALL_BYTES, toHex } from "../../../src/chain/rpc.ts";

import { UPTO_PROXY } from "../../../src/parts/permit2/proxies.ts";
import { AccountView } from "./account-view.ts";
import { gasUsed } from "./accounts.ts";
import { type Block, type Chain, FIRST_BLOCK } from "./chain.ts";
import { RpcFault, readCall, SETTLES } from "./contracts.ts";
import type { Server, WireAnswer } from "./network.ts";
import type { Simulation } from "./simulation.ts";

/** Hashes of the events' signatures. */
const USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
/** `authorizationState(address,bytes32)` */
const AUTHORIZATION_STATE = "e94a0102";
/** `nonceBitmap(address,uint256)` */
const NONCE_BITMAP = "4fe02b44";
/** `balanceOf(address)`, `allowance(address,address)` */
const HOLDINGS = ["70a08231", "dd62ed3e"];
/** `isValidSignature(bytes32,bytes)`, of payers that are contracts. Its answer is the selector. */
const IS_VALID_SIGNATURE = "1626ba7e";

/** Most blocks that a node lags behind. */
const MAX_LAG = 15;
/** Event of the proxies. */
const SETTLED = `0x${"ab".repeat(32)}`;
/** Bit of its word that every Permit2 nonce of a client is. */
const PERMIT2_BIT = 1;

/** Returns the only nonce that a client takes of a word. */
export function permit2Nonce(word: number): string {
  return String(word * 256 + PERMIT2_BIT);
}

interface Filter {
  readonly address?: string | readonly string[];
  readonly blockHash?: string;
  readonly topics?: readonly (string | null)[];
  readonly fromBlock?: string;
  readonly toBlock?: string;
}

/** JSON-RPC of a chain through nodes, some of which lag behind, refuse or stay silent. */
export function chainNode(
  simulation: Simulation,
  chain: Chain,
  { chainId, asset }: { readonly chainId: number; readonly asset: string },
): Server {
  return ({ body }, answer) => {
    const { method, params } = JSON.parse(body) as { method: string; params: unknown[] };
    if (simulation.fault("the chain's node stays silent", 0.003)) return;
    if (simulation.fault("the chain's node answers 503", 0.01)) return answer(json(503, "overloaded"));
    const lag = simulation.fault("the chain's node lags behind", 0.03)
      ? 1 + Math.floor(simulation.random("lag") * MAX_LAG)
      : 0;
    const isCareless = lag > 0 && simulation.random("careless node") < 0.5;
    const view = new View(simulation, chain, {
      head: Math.max(chain.head.number - lag, FIRST_BLOCK),
      asset: asset.toLowerCase(),
      isCareless,
    });
    try {
      const result = method === "eth_chainId" ? hex(chainId) : view.answer(method, params);
      answer(json(200, { jsonrpc: "2.0", id: 1, result }));
    } catch (error) {
      if (!(error instanceof RpcFault)) throw error;
      answer(json(200, { jsonrpc: "2.0", id: 1, error: { code: -32000, message: error.message } }));
    }
  };
}

interface Log {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly blockNumber: string;
  readonly blockHash: string;
  readonly transactionHash: string;
}

/** Logs of blocks that were read before. */
const logs = new WeakMap<Block, readonly Log[]>();

/** The chain as a node sees it whose newest block is `head`. */
class View {
  readonly #chain: Chain;
  readonly #head: number;
  readonly #asset: string;
  readonly #isCareless: boolean;
  readonly #accounts: AccountView;

  /** @param parts `isCareless` answers with the state that it has, whatever block the question names */
  constructor(
    simulation: Simulation,
    chain: Chain,
    parts: { readonly head: number; readonly asset: string; readonly isCareless: boolean },
  ) {
    this.#chain = chain;
    this.#head = parts.head;
    this.#asset = parts.asset;
    this.#isCareless = parts.isCareless;
    this.#accounts = new AccountView(simulation, chain, parts);
  }

  answer(method: string, params: readonly unknown[]): unknown {
    switch (method) {
      case "eth_blockNumber":
        return hex(this.#head);
      case "eth_getBlockByNumber":
        return this.#blockAnswer(String(params[0]), params[1] === true);
      case "eth_call":
        return this.#call(
          params[0] as { from?: string; to?: string; data: string },
          params[1] as string | { blockHash: string },
        );
      case "eth_getLogs":
        return this.#logs(params[0] as Filter);
      case "eth_getTransactionByHash":
        return this.#transaction(String(params[0]));
      case "eth_getTransactionReceipt":
        return this.#receipt(String(params[0]));
      default:
        return this.#accounts.answer(method, params);
    }
  }

  #blockAnswer(which: string, withTransactions: boolean): unknown {
    const block = this.#block(which === "latest" ? this.#head : Number(which));
    if (block === undefined) return null;
    const { number, hash, parentHash, timestamp, baseFee, transactions } = block;
    return {
      ...{ number: hex(number), hash, parentHash, timestamp: hex(timestamp), baseFeePerGas: hex(baseFee) },
      ...(withTransactions && {
        transactions: transactions.flatMap(({ hash: of, sent }) =>
          sent === undefined ? [] : { hash: of, from: sent.from, nonce: hex(sent.nonce) },
        ),
      }),
    };
  }

  #block(number: number): Block | undefined {
    return number > this.#head ? undefined : this.#chain.block(number);
  }

  #call(call: { from?: string; to?: string; data: string }, at: string | { blockHash: string }): string {
    const block =
      typeof at === "object"
        ? this.#chain.blockByHash(at.blockHash)
        : this.#block(at === "latest" ? this.#head : Number(at));
    const isMissing = block === undefined || block.number > this.#head;
    const seen = isMissing && this.#isCareless ? this.#block(this.#head) : block;
    if (seen === undefined || (isMissing && !this.#isCareless)) throw new RpcFault("header not found");
    const { from, to, data } = call;
    if (to !== undefined && data.startsWith(IS_VALID_SIGNATURE, 2))
      return `0x${IS_VALID_SIGNATURE.padEnd(64, "0")}`;
    const ofChannels = this.#chain.channels.view(to, data, seen.number);
    if (ofChannels !== undefined) return ofChannels;
    const moving = to === undefined ? undefined : readCall(to, data);
    if (moving !== undefined) return this.#accounts.simulate(moving, from);
    if (to !== undefined) return `0x${this.#isUsed(data.slice(2), seen)}`;
    const answers = questionsIn(data.slice(2)).map((question) => `${word(1)}${this.#isUsed(question, seen)}`);
    return `0x${word(seen.timestamp)}${answers.join("")}`;
  }

  #isUsed(question: string, block: Block): string {
    const selector = question.slice(0, 8);
    const payer = `0x${question.slice(8 + 24, 72)}`;
    if (HOLDINGS.includes(selector)) {
      const tokens = this.#chain.accounts.at(payer, block.number)?.tokens;
      return tokens === undefined ? "f".repeat(64) : tokens.toString(16).padStart(64, "0");
    }
    const about = question.slice(72, 136);
    const isUsed = (nonce: string) =>
      (this.#chain.useOf({ payer, nonce })?.block ?? Number.POSITIVE_INFINITY) <= block.number;
    if (selector === AUTHORIZATION_STATE) return word(isUsed(`0x${about}`) ? 1 : 0);
    if (selector !== NONCE_BITMAP) throw new RpcFault("execution reverted");
    return word(isUsed(permit2Nonce(Number(`0x${about}`))) ? 1 << PERMIT2_BIT : 0);
  }

  #logs({ address, blockHash, topics = [], fromBlock = "0x0", toBlock = "latest" }: Filter): unknown[] {
    if (blockHash !== undefined) {
      const block = this.#chain.blockByHash(blockHash);
      if (block === undefined || block.number > this.#head) throw new RpcFault("unknown block");
      return [...this.#logsOf(block)];
    }
    const to = toBlock === "latest" ? this.#head : Math.min(this.#head, Number(toBlock));
    const found: unknown[] = [];
    for (let number = Math.max(0, Number(fromBlock)); number <= to; number++) {
      const block = this.#chain.block(number);
      for (const log of block === undefined ? [] : this.#logsOf(block)) {
        const isNamed = topics.every((topic, i) => topic === null || topic === log.topics[i]);
        const [from = this.#asset] = [address ?? []].flat();
        if (isNamed && from.toLowerCase() === log.address) found.push(log);
      }
    }
    return found;
  }

  #receipt(hash: string): unknown {
    const found = this.#chain.find(hash);
    if (found === undefined || found.block.number > this.#head) return null;
    const logs = this.#logsOf(found.block).filter(({ transactionHash }) => transactionHash === hash);
    const { number, hash: blockHash } = found.block;
    const { sent, gasPrice = 0n } = found.mined;
    if (!this.#chain.accounts.hasReceipt(hash)) return null;
    return {
      transactionHash: hash,
      status: found.mined.isSuccess ? "0x1" : "0x0",
      blockNumber: hex(number),
      blockHash,
      logs,
      ...(sent && { gasUsed: hex(gasUsed(sent)), effectiveGasPrice: hex(gasPrice) }),
    };
  }

  #transaction(hash: string): unknown {
    const found = this.#chain.find(hash);
    if (found === undefined || found.block.number > this.#head) return null;
    const { authorization } = found.mined;
    if (authorization?.proxy === undefined) return { hash, to: this.#asset, input: "0x" };
    const { proxy, nonce, payer } = authorization;
    const [selector, ownerAt] = proxy === UPTO_PROXY.address ? SETTLES.upto : SETTLES.exact;
    const words = Array.from({ length: 8 }, (_, at) => {
      if (at === 2) return BigInt(nonce).toString(16).padStart(64, "0");
      return at === ownerAt ? payer.slice(2).padStart(64, "0") : word(0);
    });
    return { hash, to: proxy, input: `0x${selector}${words.join("")}` };
  }

  #logsOf(block: Block): readonly Log[] {
    const known = logs.get(block);
    if (known !== undefined) return known;
    const read = this.#readLogs(block);
    logs.set(block, read);
    return read;
  }

  #readLogs({ number, hash: blockHash, transactions }: Block): Log[] {
    return transactions.flatMap(({ hash: transactionHash, isSuccess, authorization, sent }) => {
      if (!isSuccess) return [];
      const place = { address: this.#asset, blockNumber: hex(number), blockHash, transactionHash };
      const transfer = (from: string, to: string, amount: bigint): Log => ({
        ...place,
        topics: [TRANSFER, topic(from), topic(to)],
        data: `0x${amount.toString(16).padStart(64, "0")}`,
      });
      if (sent?.call?.kind === "transfer")
        return [{ ...transfer(sent.from, sent.call.to, sent.call.amount), address: sent.call.token }];
      if (authorization === undefined) return [];
      const { payer, nonce, to, amount, proxy } = authorization;
      const settled =
        proxy === undefined
          ? { ...place, topics: [USED, topic(payer), nonce], data: "0x" }
          : { ...place, address: proxy, topics: [SETTLED], data: "0x" };
      return [settled, transfer(payer, to, amount)];
    });
  }
}

/** Returns the data of each call that code of `wordsCode` makes. */
function questionsIn(code: string): string[] {
  const questions: string[] = [];
  const operand = (at: number) => 2 * Number(`0x${code.slice(at + 2, at + 6)}`);
  for (let at = 0; code.startsWith("61", at); at += 2 * CALL_BYTES) {
    const [length, from] = [operand(at), operand(at + 6)];
    questions.push(code.slice(from, from + length));
  }
  return questions;
}

function topic(address: string): string {
  return `0x${address.slice(2).padStart(64, "0")}`;
}

function json(status: number, value: unknown): WireAnswer {
  return { status, headers: { "content-type": "application/json" }, text: JSON.stringify(value) };
}

function hex(number: number | bigint): string {
  return toHex(BigInt(number));
}

function word(number: number): string {
  return number.toString(16).padStart(64, "0");
}
