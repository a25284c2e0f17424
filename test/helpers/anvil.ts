import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Account,
  type Address,
  type Chain,
  createTestClient,
  defineChain,
  type Hex,
  http,
  type PublicClient,
  parseGwei,
  publicActions,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
  WaitForTransactionReceiptTimeoutError,
  walletActions,
} from "viem";
import { processEnded, spawnTethered, type TetheredProcess } from "./tethered-process.ts";

const START_TIMEOUT_MS = 20_000;
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
 * Throws, with what anvil printed, if it does not come up within 20 s.
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
  const { chainId = 84532, loadState, port: wantedPort = 0, extraArgs = [] } = options;
  const child = spawnTethered({
    command: anvilBinary(),
    args: [
      ...["--host", "127.0.0.1", "--port", String(wantedPort), "--chain-id", String(chainId)],
      ...(loadState === undefined ? [] : ["--load-state", loadState]),
      ...extraArgs,
    ],
  });
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await processEnded(child);
  };
  try {
    const port = await listeningPort(child);
    const rpcUrl = `http://127.0.0.1:${port}`;
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

function createAnvilClient(chain: Chain, rpcUrl: string) {
  return createTestClient({
    mode: "anvil",
    chain,
    transport: http(rpcUrl, { retryCount: 0 }),
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
  const receipt = await minedReceipt(anvil.client, { hash, timeout: 20_000 });
  if (receipt.status !== "success") throw new Error(`transaction ${hash} reverted`);
  return receipt;
}

/**
 * Waits for a transaction's receipt. viem's own way waits for one more block when the transaction is mined while it
 * looks, and a chain that mines on demand has none. Throws viem's error for a time-out.
 */
export async function minedReceipt(
  client: Pick<PublicClient, "getTransactionReceipt">,
  { hash, timeout = 20_000 }: { readonly hash: Hex; readonly timeout?: number },
): Promise<TransactionReceipt> {
  const deadline = Date.now() + timeout;
  for (let waitMs = 10; ; waitMs = Math.min(waitMs * 1.5, 100)) {
    try {
      return await client.getTransactionReceipt({ hash });
    } catch (error) {
      if (!(error instanceof TransactionReceiptNotFoundError)) throw error;
      if (Date.now() >= deadline) throw new WaitForTransactionReceiptTimeoutError({ hash });
    }
    await sleep(waitMs);
  }
}

/**
 * The binary inside the platform's package, run as it is: the wrapper script beside it costs 0.3 s a start, and
 * falls back to a download.
 */
function anvilBinary(): string {
  const arch = { x64: "amd64", arm64: "arm64" }[process.arch as string];
  if (arch === undefined || !["linux", "darwin"].includes(process.platform)) {
    throw new Error(
      `anvil comes for linux and darwin on x64 and arm64, not ${process.platform} ${process.arch}`,
    );
  }
  const packageName = `@foundry-rs/anvil-${process.platform}-${arch}`;
  try {
    return createRequire(import.meta.url).resolve(`${packageName}/bin/anvil`);
  } catch (cause) {
    throw new Error(`${packageName} is not installed: run npm ci without --omit=optional`, { cause });
  }
}

/** The port, from the line that anvil prints once it accepts connections. */
function listeningPort(child: TetheredProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let printed = "";
    const fail = (what: string): void => {
      clearTimeout(timer);
      reject(new Error(`anvil ${what}:\n${printed.slice(-2000)}`));
    };
    const timer = setTimeout(() => fail(`did not start within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS);
    child.once("error", (error) => fail(`could not be started (${error.message})`));
    child.once("close", (code) => fail(`ended with code ${code}`));
    child.stderr.on("data", (chunk) => {
      printed += chunk;
    });
    // Read to the end: a full pipe would stop anvil, which logs every request.
    createInterface({ input: child.stdout }).on("line", (line) => {
      const port = /^Listening on .*:(\d+)$/.exec(line)?.[1];
      if (port === undefined) {
        if (printed.length < 10_000) printed += `${line}\n`;
        return;
      }
      clearTimeout(timer);
      resolve(Number(port));
    });
  });
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
