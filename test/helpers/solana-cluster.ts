import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import {
  type Address,
  address,
  createKeyPairSignerFromPrivateKeyBytes,
  getAddressEncoder,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getProgramDerivedAddress,
  getTransactionDecoder,
  type KeyPairSigner,
  lamports,
} from "@solana/kit";
import type { FailedTransactionMetadata } from "litesvm";
import { listenHttp } from "./http-listener.ts";

/** The devnet's first block: the cluster answers as the devnet. */
const GENESIS_HASH = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";
export const SOLANA_NETWORK = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";

const TOKEN_PROGRAM = address("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
export const TOKEN_2022_PROGRAM = address("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb");
const ASSOCIATED_TOKEN_PROGRAM = address("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL");
const MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
const MINT_BYTES = 82;
const TOKEN_ACCOUNT_BYTES = 165;
const AMOUNT_AT = 64;
/** Slots after which a blockhash is too old. */
const LIFETIME_SLOTS = 150;

/** A transaction that landed. */
interface Landed {
  readonly signature: string;
  readonly slot: number;
  readonly err: unknown;
  readonly base64: string;
  readonly accounts: readonly string[];
  readonly memo: string | null;
  readonly before: readonly (bigint | undefined)[];
  readonly after: readonly (bigint | undefined)[];
}

/** A cluster of one LiteSVM behind a JSON-RPC with the methods that the official parts and jobgate call. */
export interface SolanaCluster {
  readonly rpcUrl: string;
  /** Methods that were called, in order. */
  readonly calls: readonly string[];
  /** Transactions that landed, in order. */
  readonly landed: readonly Landed[];
  /** Slots by which the newest finalized block is behind. Default 0. */
  finalizedLag: number;
  /** Slot of the oldest block that the node still has. */
  firstSlot: number;
  /** While set, sent transactions are answered and never land. */
  dropsTransactions: boolean;
  /** Makes a mint, at an address of its own unless it is given one. */
  createMint(options?: {
    readonly at?: Address;
    readonly decimals?: number;
    readonly program?: Address;
  }): Promise<Address>;
  /** Makes the account of an owner for a token. */
  fund(owner: Address, mint: Address, amount: bigint): Promise<Address>;
  balanceOf(owner: Address, mint: Address): Promise<bigint | undefined>;
  /** Passes slots. A blockhash is too old after 150. */
  passSlots(count: number): void;
  stop(): Promise<void>;
}

/** Makes an account from a number, the same one each time. */
export function solanaAccount(number: number): Promise<KeyPairSigner> {
  return createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(number));
}

/** Returns the error as a node says it. */
function errorOf(
  failed: FailedTransactionMetadata,
): string | { readonly InstructionError: readonly unknown[] } {
  const error = failed.err();
  if (typeof error !== "object" || !("index" in error)) return String(error);
  return { InstructionError: [error.index, String(error)] };
}

/** Returns the account that holds a token for its owner. */
export async function tokenAccountOf(
  owner: Address,
  mint: Address,
  program = TOKEN_PROGRAM,
): Promise<Address> {
  const seeds = [owner, program, mint].map((part) => getAddressEncoder().encode(part));
  const [account] = await getProgramDerivedAddress({ programAddress: ASSOCIATED_TOKEN_PROGRAM, seeds });
  return account;
}

/** Loads LiteSVM, which runs the network's programs in native code. @throws Error where it has no build */
async function loadLiteSvm(): Promise<typeof import("litesvm")> {
  try {
    return await import("litesvm");
  } catch (cause) {
    const platform = `${process.platform}-${process.arch}`;
    throw new Error(
      `tests of Solana need LiteSVM, which has no build for ${platform}; run them on macOS, or on Linux with x64 or arm64`,
      { cause },
    );
  }
}

export async function startSolanaCluster(): Promise<SolanaCluster> {
  const { FailedTransactionMetadata: Failed, LiteSVM } = await loadLiteSvm();
  const svm = new LiteSVM();
  const calls: string[] = [];
  const landed: Landed[] = [];
  const blockhashes = new Map<string, number>();
  let slot = 1_000;

  const dataOf = (account: string): Buffer | undefined => {
    const found = svm.getAccount(account as never) as unknown as {
      exists: boolean;
      data: Uint8Array;
      programAddress: string;
    };
    return found.exists ? Buffer.from(found.data) : undefined;
  };
  const unitsOf = (account: string): bigint | undefined => {
    const data = dataOf(account);
    return data?.length === TOKEN_ACCOUNT_BYTES ? data.readBigUInt64LE(AMOUNT_AT) : undefined;
  };
  const setAccount = (at: Address, data: Uint8Array, program: Address): void => {
    const encoded = {
      address: at,
      data,
      executable: false,
      lamports: lamports(10_000_000n),
      programAddress: program,
      space: BigInt(data.length),
    };
    svm.setAccount(encoded as never);
  };

  const latestBlockhash = (): string => {
    const blockhash = svm.latestBlockhash();
    if (!blockhashes.has(blockhash)) blockhashes.set(blockhash, slot);
    return blockhash;
  };
  const slotAt = (commitment: unknown) => (commitment === "finalized" ? slot - cluster.finalizedLag : slot);

  const send = (base64: string): string => {
    const transaction = getTransactionDecoder().decode(Buffer.from(base64, "base64"));
    const message = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes) as unknown as {
      readonly staticAccounts: readonly string[];
      readonly instructions: readonly { readonly programAddressIndex: number; readonly data?: Uint8Array }[];
    };
    const first = Object.values(transaction.signatures)[0];
    if (first === null || first === undefined) throw new Error("the fee payer has not signed");
    const signature = getBase58Decoder().decode(first);
    if (cluster.dropsTransactions || landed.some((one) => one.signature === signature)) return signature;
    const accounts = message.staticAccounts;
    const before = accounts.map(unitsOf);
    const result = svm.sendTransaction(transaction as never);
    const err = result instanceof Failed ? errorOf(result) : null;
    const memoData = message.instructions.find(
      ({ programAddressIndex }) => accounts[programAddressIndex] === MEMO_PROGRAM,
    )?.data;
    const memo = memoData === undefined ? null : `[${memoData.length}] ${Buffer.from(memoData).toString()}`;
    // One whose signatures or blockhash are wrong does not land.
    if (err === null || typeof err === "object")
      landed.push({ signature, slot, err, base64, accounts, memo, before, after: accounts.map(unitsOf) });
    return signature;
  };

  const balances = (one: Landed, units: readonly (bigint | undefined)[]) =>
    one.accounts.flatMap((_, accountIndex) => {
      const amount = units[accountIndex];
      return amount === undefined ? [] : { accountIndex, uiTokenAmount: { amount: amount.toString() } };
    });

  const context = (commitment: unknown) => ({ slot: slotAt(commitment) });
  const methods: Readonly<Record<string, (...params: never[]) => unknown>> = {
    getGenesisHash: () => GENESIS_HASH,
    getFirstAvailableBlock: () => cluster.firstSlot,
    getSlot: (options?: { commitment?: string }) => slotAt(options?.commitment),
    getLatestBlockhash: () => ({
      context: context("confirmed"),
      value: { blockhash: latestBlockhash(), lastValidBlockHeight: slot + LIFETIME_SLOTS },
    }),
    isBlockhashValid: (blockhash: string, { commitment }: { commitment: string }) => {
      const age = slotAt(commitment) - (blockhashes.get(blockhash) ?? Number.NEGATIVE_INFINITY);
      // A block that is older than a blockhash does not know it.
      return { context: context(commitment), value: age >= 0 && age <= LIFETIME_SLOTS };
    },
    getAccountInfo: (account: string) => {
      const found = svm.getAccount(account as never) as unknown as {
        exists: boolean;
        data: Uint8Array;
        programAddress: string;
      };
      const value = found.exists && {
        data: [Buffer.from(found.data).toString("base64"), "base64"],
        owner: found.programAddress,
        lamports: 10_000_000,
        executable: false,
        rentEpoch: 0,
        space: found.data.length,
      };
      return { context: context("confirmed"), value: value || null };
    },
    simulateTransaction: (base64: string) => {
      const { messageBytes, signatures } = getTransactionDecoder().decode(Buffer.from(base64, "base64"));
      const filled = Object.fromEntries(
        Object.entries(signatures).map(([signer, signature]) => [signer, signature ?? new Uint8Array(64)]),
      );
      svm.withSigverify(false);
      const result = svm.simulateTransaction({ messageBytes, signatures: filled } as never);
      svm.withSigverify(true);
      const err = result instanceof Failed ? errorOf(result) : null;
      return { context: context("confirmed"), value: { err, logs: [], unitsConsumed: 0 } };
    },
    sendTransaction: (base64: string) => send(base64),
    getSignatureStatuses: (signatures: readonly string[]) => ({
      context: context("confirmed"),
      value: signatures.map((signature) => {
        const one = landed.find((other) => other.signature === signature);
        const status = { confirmations: 0, confirmationStatus: "confirmed" };
        return one === undefined ? null : { ...status, slot: one.slot, err: one.err };
      }),
    }),
    getTransaction: (signature: string, { commitment }: { commitment: string }) => {
      const one = landed.find((other) => other.signature === signature && other.slot <= slotAt(commitment));
      if (one === undefined) return null;
      const meta = {
        err: one.err,
        preTokenBalances: balances(one, one.before),
        postTokenBalances: balances(one, one.after),
      };
      return { slot: one.slot, meta, transaction: [one.base64, "base64"] };
    },
    getSignaturesForAddress: (
      account: string,
      { commitment, limit, before }: { commitment: string; limit: number; before?: string },
    ) => {
      const isListed = ({ accounts, slot: at }: Landed) =>
        accounts.includes(account) && at >= cluster.firstSlot && at <= slotAt(commitment);
      const all = landed.filter(isListed);
      const newestFirst = all.toReversed();
      const from = before === undefined ? 0 : newestFirst.findIndex((one) => one.signature === before) + 1;
      return newestFirst
        .slice(from, from + limit)
        .map((one) => ({ signature: one.signature, slot: one.slot, err: one.err, memo: one.memo }));
    },
  };

  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const {
      id,
      method,
      params = [],
    } = (await json(request)) as {
      readonly id: unknown;
      readonly method: string;
      readonly params?: readonly never[];
    };
    calls.push(method);
    let answer: object;
    try {
      const run = methods[method];
      answer = run
        ? { result: run(...params) }
        : { error: { code: -32_601, message: `the cluster has no ${method}` } };
    } catch (error) {
      answer = { error: { code: -32_002, message: String(error) } };
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
  };
  const listener = await listenHttp({ handler: (request, response) => void respond(request, response) });

  let mints = 100;
  const cluster: SolanaCluster = {
    rpcUrl: listener.url,
    calls,
    landed,
    finalizedLag: 0,
    firstSlot: 0,
    dropsTransactions: false,
    async createMint({ at, decimals = 6, program = TOKEN_PROGRAM } = {}) {
      const mint = at ?? (await solanaAccount(mints++)).address;
      const data = Buffer.alloc(MINT_BYTES);
      data.writeBigUInt64LE(10n ** 15n, 36);
      data.writeUInt8(decimals, 44);
      data.writeUInt8(1, 45);
      setAccount(mint, data, program);
      return mint;
    },
    async fund(owner, mint, amount) {
      const account = await tokenAccountOf(owner, mint);
      const data = Buffer.alloc(TOKEN_ACCOUNT_BYTES);
      data.set(getAddressEncoder().encode(mint), 0);
      data.set(getAddressEncoder().encode(owner), 32);
      data.writeBigUInt64LE(amount, AMOUNT_AT);
      data.writeUInt8(1, 108);
      setAccount(account, data, TOKEN_PROGRAM);
      return account;
    },
    balanceOf: async (owner, mint) => unitsOf(await tokenAccountOf(owner, mint)),
    passSlots(count) {
      slot += count;
      // LiteSVM takes the newest blockhash alone, so it stays the newest for as long as it is good.
      if (slot - (blockhashes.get(latestBlockhash()) ?? slot) > LIFETIME_SLOTS) svm.expireBlockhash();
    },
    stop: listener.stop,
  };
  for (const feePayer of [1, 4])
    svm.airdrop((await solanaAccount(feePayer)).address as never, lamports(10_000_000_000n) as never);
  return cluster;
}
