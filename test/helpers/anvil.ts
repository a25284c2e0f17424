import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Account,
  type Address,
  type Chain,
  createTestClient,
  custom,
  defineChain,
  type Hex,
  numberToHex,
  type PublicClient,
  parseGwei,
  publicActions,
  RpcRequestError,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
  type Transport,
  WaitForTransactionReceiptTimeoutError,
  walletActions,
} from "viem";
import { startChain } from "../../src/chain/anvil.ts";
import { JsonEndpoint } from "../../src/node/json-endpoint.ts";

/** Address of Multicall3 on every chain. */
export const MULTICALL3 = "0xcA11bde05977b3631167028862bE2a173976CA11";

/** A running chain, which mines a block for each transaction at once by default. */
export interface Anvil {
  readonly rpcUrl: string;
  readonly chainId: number;
  readonly port: number;
  readonly chain: Chain;
  /** Reads the chain, and steers it: mining, time, balances, snapshots. */
  readonly client: AnvilClient;
  stop(): Promise<void>;
}

export type AnvilClient = ReturnType<typeof createAnvilClient>;

/**
 * Starts anvil on a free port of 127.0.0.1, with Multicall3 at its usual address. It ends with this process.
 * Throws, with what anvil printed, if it does not come up within 50 s.
 */
export async function startAnvil(
  options: {
    /** Default 84532, which x402 version 1 knows as `base-sepolia`. Ignored by a loaded state's own contracts. */
    readonly chainId?: number;
    /** Path of a state file to start from. */
    readonly loadState?: string;
    /** Default 0: a free port. */
    readonly port?: number;
    readonly extraArgs?: readonly string[];
  } = {},
): Promise<Anvil> {
  const { chainId = 84532, loadState, port: wanted = 0, extraArgs = [] } = options;
  const loading = loadState === undefined ? [] : ["--load-state", loadState];
  const local = await startChain({ chainId, port: wanted, extraArgs: [...loading, ...extraArgs] });
  const { rpcUrl, port, stop } = local;
  try {
    const chain = defineChain({
      id: chainId,
      name: "anvil",
      nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
      rpcUrls: { default: { http: [rpcUrl] } },
    });
    const client = createAnvilClient(chain, rpcUrl);
    await installMulticall3(client);
    return { rpcUrl, chainId, port, chain, client, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Chains of files that ended, each with the snapshot of its start. */
const idle: { readonly anvil: Anvil; snapshot: Hex }[] = [];

/**
 * Takes a chain that an earlier file of this process has stopped using, back at its first block and at the clock's time,
 * or starts one. Its `stop` keeps the chain for the next file; it ends with this process.
 */
export async function borrowAnvil(): Promise<Anvil> {
  const spare = idle.pop() ?? (await startSpare());
  return { ...spare.anvil, stop: () => giveBack(spare) };
}

async function startSpare(): Promise<(typeof idle)[number]> {
  const anvil = await startAnvil();
  return { anvil, snapshot: await anvil.client.snapshot() };
}

async function giveBack(spare: (typeof idle)[number]): Promise<void> {
  const { client } = spare.anvil;
  await client.revert({ id: spare.snapshot });
  await client.request({ method: "anvil_dropAllTransactions" } as never);
  await client.setAutomine(true);
  // Reverting also sets the clock back.
  await client.request({
    method: "evm_setTime",
    params: [numberToHex(Math.floor(Date.now() / 1000))],
  } as never);
  spare.snapshot = await client.snapshot();
  idle.push(spare);
}

/** Transport for viem over kept connections. Its own uses fetch, which takes six times as much CPU a request. */
export function rpcTransport(url: string): Transport {
  const endpoint = new JsonEndpoint({ url, headers: {}, timeoutMs: 60_000, maxAnswerBytes: 100_000_000 });
  return custom(
    {
      async request({ method, params }: { readonly method: string; readonly params?: unknown }) {
        const body = { jsonrpc: "2.0", id: 1, method, params };
        const { status, text } = await endpoint.post(JSON.stringify(body));
        if (status !== 200) throw new Error(`the RPC answered with status ${status}`);
        const { error, result } = JSON.parse(text) as RpcAnswer;
        if (error !== undefined) throw new RpcRequestError({ body, error, url });
        return result;
      },
    },
    { retryCount: 0 },
  );
}

interface RpcAnswer {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

function createAnvilClient(chain: Chain, rpcUrl: string) {
  return createTestClient({
    mode: "anvil",
    chain,
    transport: rpcTransport(rpcUrl),
    pollingInterval: 10,
    cacheTime: 0,
  })
    .extend(publicActions)
    .extend(walletActions);
}

/**
 * Sends a transaction and waits until it is mined. anvil holds the keys of its accounts: it signs, and gives
 * concurrent transactions of one sender their nonces in order. Throws if the transaction reverts.
 */
export async function sendTransaction(options: {
  readonly anvil: Anvil;
  readonly from: Account;
  /** Absent: `data` creates a contract. */
  readonly to?: Address;
  readonly data: Hex;
  /** Outbids all transactions that wait, and mines a block with them and it: for a chain that does not mine by itself. */
  readonly beforePending?: boolean;
}): Promise<TransactionReceipt> {
  const { anvil, from, to, data, beforePending = false } = options;
  const fees = beforePending
    ? { maxPriorityFeePerGas: parseGwei("100"), maxFeePerGas: parseGwei("200"), gas: 1_000_000n }
    : {};
  const hash = await anvil.client.sendTransaction({ account: from.address, to: to ?? null, data, ...fees });
  if (beforePending) await anvil.client.mine({ blocks: 1 });
  const receipt = await minedReceipt(anvil.client, { anvil, hash, timeout: 20_000 });
  if (receipt.status !== "success") throw new Error(`transaction ${hash} reverted`);
  return receipt;
}

/**
 * Waits for a transaction's receipt. viem's own way waits for one more block when the transaction is mined while it
 * looks, and a chain that mines on demand has none. Throws viem's error for a time-out.
 */
export async function minedReceipt(
  client: Pick<PublicClient, "getTransactionReceipt">,
  { anvil, hash, timeout = 20_000 }: { readonly anvil: Anvil; readonly hash: Hex; readonly timeout?: number },
): Promise<TransactionReceipt> {
  const deadline = Date.now() + timeout;
  for (let tries = 1, waitMs = 10; ; tries++, waitMs = Math.min(waitMs * 1.5, 100)) {
    try {
      return await client.getTransactionReceipt({ hash });
    } catch (error) {
      if (!(error instanceof TransactionReceiptNotFoundError)) throw error;
      if (Date.now() >= deadline) throw new WaitForTransactionReceiptTimeoutError({ hash });
    }
    if (tries % 10 === 0) await mineIfForgotten(anvil, hash);
    await sleep(waitMs);
  }
}

/** Mines a transaction that automatic mining left in the pool, which happens now and then (foundry-rs/foundry#10122). */
async function mineIfForgotten({ client }: Anvil, hash: Hex): Promise<void> {
  if (!(await client.getAutomine())) return;
  const known = await client.getTransaction({ hash }).catch(() => undefined);
  if (known?.blockNumber === null) await client.mine({ blocks: 1 });
}

/** The official facilitator reads balances and nonces through Multicall3, which every public chain has. */
async function installMulticall3(client: AnvilClient): Promise<void> {
  const require = createRequire(import.meta.url);
  // viem carries the creation code for its own deployless calls, but does not export it.
  const path = join(dirname(require.resolve("viem/package.json")), "_cjs/constants/contracts.js");
  const { multicall3Bytecode } = require(path) as { multicall3Bytecode: Hex };
  // The creation code returns the contract's code.
  const { data } = await client.call({ data: multicall3Bytecode });
  if (data === undefined) throw new Error("anvil did not run the creation code of Multicall3");
  await client.setCode({ address: MULTICALL3, bytecode: data });
}
