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
const SYSTEM_PROGRAM = address("11111111111111111111111111111111");
const MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
const MINT_BYTES = 82;
const TOKEN_ACCOUNT_BYTES = 165;
const AMOUNT_AT = 64;
/** Slots after which a blockhash is too old. */
const LIFETIME_SLOTS = 150;
const SLOT_MS = 400;

/** A transaction that landed. */
interface Landed {
  readonly signature: string;
  readonly slot: number;
  readonly err: unknown;
  readonly base64: string;
  readonly accounts: readonly string[];
  readonly memo: string | null;
  /** Lamports. */
  readonly fee: number;
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
  /** Slots by which the node that names blockhashes is behind. Default 0. */
  lag: number;
  /** While set, the node follows a fork that has none of the transactions. */
  isOnAnotherFork: boolean;
  /** Slots by which the node is behind that answers each second call; as real nodes do, it refuses later slots. Default 0. */
  otherNodeLag: number;
  /** While set, each simulation ends with this error. */
  simulationError: string | undefined;
  /** While set, sent transactions are answered and never land. */
  dropsTransactions: boolean;
  /** While set, the node finds no transaction by its signature. */
  forgetsSignatures: boolean;
  /** Makes a mint, at an address of its own unless it is given one. */
  createMint(options?: {
    readonly at?: Address;
    readonly decimals?: number;
    readonly program?: Address;
  }): Promise<Address>;
  /** Makes the account of an owner for a token: the associated one, unless it is given another address. */
  fund(owner: Address, mint: Address, amount: bigint, at?: Address): Promise<Address>;
  /** Closes the account of an owner for a token. */
  close(owner: Address, mint: Address): Promise<void>;
  balanceOf(owner: Address, mint: Address): Promise<bigint | undefined>;
  /** Returns the units in a token account. */
  unitsOf(account: Address): bigint | undefined;
  lamportsOf(account: Address): bigint;
  /** Gives an account SOL. */
  airdrop(account: Address, lamports: bigint): void;
  /** A fork replaces the blocks that are not finalized: their transactions are lost, or fail there. */
  fork(how: "loses" | "fails"): void;
  /** Passes slots. A blockhash is too old after 150. */
  passSlots(count: number): void;
  stop(): Promise<void>;
}

/** A refusal with a code of its own. */
class NodeError extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`error ${code}`);
    this.code = code;
  }
}

/** Makes an account from a number, the same one each time. */
export function solanaAccount(number: number): Promise<KeyPairSigner> {
  return createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(number));
}

/** Makes the key of an account from its number, as programs of Solana write it. */
export async function solanaKeyBytes(number: number): Promise<Uint8Array> {
  const { address: account } = await solanaAccount(number);
  return Uint8Array.from([...new Uint8Array(32).fill(number), ...getAddressEncoder().encode(account)]);
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
  // The cluster refuses what has landed, and takes again what a fork lost.
  const svm = new LiteSVM().withTransactionHistory(0n);
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
  const setAccount = (at: Address, data: Uint8Array, program: Address, balance = 10_000_000n): void => {
    const encoded = {
      address: at,
      data,
      executable: false,
      lamports: lamports(balance),
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
  /** Slots by which the node that answers is behind. */
  let behind = 0;
  const slotAt = (commitment: unknown) =>
    slot - behind - (commitment === "finalized" ? cluster.finalizedLag : 0);

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
    const lamportsOf = () => Number(svm.getBalance(accounts[0] as never) ?? 0n);
    const lamportsBefore = lamportsOf();
    const result = svm.sendTransaction(transaction as never);
    const err = result instanceof Failed ? errorOf(result) : null;
    const memoData = message.instructions.find(
      ({ programAddressIndex }) => accounts[programAddressIndex] === MEMO_PROGRAM,
    )?.data;
    const memo = memoData === undefined ? null : `[${memoData.length}] ${Buffer.from(memoData).toString()}`;
    // One whose signatures or blockhash are wrong does not land.
    if (err === null || typeof err === "object") {
      const fee = lamportsBefore - lamportsOf();
      const after = accounts.map(unitsOf);
      landed.push({ signature, slot, err, base64, accounts, memo, fee, before, after });
    }
    return signature;
  };

  const balances = (one: Landed, units: readonly (bigint | undefined)[]) =>
    one.accounts.flatMap((_, accountIndex) => {
      const amount = units[accountIndex];
      if (amount === undefined) return [];
      return {
        accountIndex,
        ...ownerOf(one.accounts[accountIndex]),
        uiTokenAmount: { amount: amount.toString() },
      };
    });

  const timeOf = (at: number) => Math.floor((Date.now() - (slot - at) * SLOT_MS) / 1_000);
  /** Returns mint and owner of a token account. */
  const ownerOf = (account = "") => {
    const data = dataOf(account);
    const at = (place: number) => data && getBase58Decoder().decode(data.subarray(place, place + 32));
    return { mint: at(0), owner: at(32) };
  };
  const context = (commitment: unknown) => ({ slot: slotAt(commitment) });
  const methods: Readonly<Record<string, (...params: never[]) => unknown>> = {
    getGenesisHash: () => GENESIS_HASH,
    getBlockTime: (at: number) => timeOf(at),
    getFirstAvailableBlock: () => cluster.firstSlot,
    getSlot: (options?: { commitment?: string }) => slotAt(options?.commitment),
    getLatestBlockhash: ({ commitment }: { commitment?: string } = {}) => {
      const blockhash = latestBlockhash();
      // LiteSVM takes the newest alone. A finalized block that has it is not older.
      const at = commitment === "finalized" ? blockhashes.get(blockhash) : slot - cluster.lag;
      return { context: { slot: at }, value: { blockhash, lastValidBlockHeight: slot + LIFETIME_SLOTS } };
    },
    isBlockhashValid: (blockhash: string, { commitment }: { commitment: string }) => {
      const age = slotAt(commitment) - (blockhashes.get(blockhash) ?? Number.NEGATIVE_INFINITY);
      // A block that is older than a blockhash does not know it.
      return { context: context(commitment), value: age >= 0 && age <= LIFETIME_SLOTS };
    },
    getBalance: (account: string) => ({
      context: context("confirmed"),
      value: Number(svm.getBalance(account as never) ?? 0n),
    }),
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
      if (cluster.simulationError !== undefined)
        return { context: context("confirmed"), value: { err: cluster.simulationError, logs: [] } };
      const { messageBytes, signatures } = getTransactionDecoder().decode(Buffer.from(base64, "base64"));
      const isTwin = (one: Landed) =>
        Buffer.from(one.base64, "base64")
          .subarray(-messageBytes.length)
          .equals(messageBytes as never);
      if (landed.some(isTwin))
        return {
          context: context("confirmed"),
          value: { err: "AlreadyProcessed", logs: [], unitsConsumed: 0 },
        };
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
        const one = cluster.forgetsSignatures
          ? undefined
          : landed.find((other) => other.signature === signature);
        const isFinalized = one !== undefined && one.slot <= slotAt("finalized");
        const status = { confirmations: 0, confirmationStatus: isFinalized ? "finalized" : "confirmed" };
        return one === undefined ? null : { ...status, slot: one.slot, err: one.err };
      }),
    }),
    getTransaction: (signature: string, { commitment }: { commitment: string }) => {
      const one = landed.find((other) => other.signature === signature && other.slot <= slotAt(commitment));
      if (one === undefined || cluster.isOnAnotherFork || cluster.forgetsSignatures) return null;
      const meta = {
        err: one.err,
        fee: one.fee,
        preTokenBalances: balances(one, one.before),
        postTokenBalances: balances(one, one.after),
      };
      return { slot: one.slot, meta, transaction: [one.base64, "base64"] };
    },
    getSignaturesForAddress: (
      account: string,
      {
        commitment,
        limit,
        before,
        minContextSlot = 0,
      }: { commitment: string; limit: number; before?: string; minContextSlot?: number },
    ) => {
      if (minContextSlot > slotAt(commitment)) throw new NodeError(-32_016);
      const isListed = ({ accounts, slot: at }: Landed) =>
        !cluster.isOnAnotherFork &&
        accounts.includes(account) &&
        at >= cluster.firstSlot &&
        at <= slotAt(commitment);
      const all = landed.filter(isListed);
      const newestFirst = all.toReversed();
      const from = before === undefined ? 0 : newestFirst.findIndex((one) => one.signature === before) + 1;
      return newestFirst.slice(from, from + limit).map(({ signature, slot: at, err, memo }) => ({
        signature,
        slot: at,
        err,
        memo,
        blockTime: timeOf(at),
      }));
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
    behind = calls.length % 2 === 0 ? cluster.otherNodeLag : 0;
    let answer: object;
    try {
      const run = methods[method];
      answer = run
        ? { result: run(...params) }
        : { error: { code: -32_601, message: `the cluster has no ${method}` } };
    } catch (error) {
      const code = error instanceof NodeError ? error.code : -32_002;
      answer = { error: { code, message: String(error) } };
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
    lag: 0,
    otherNodeLag: 0,
    simulationError: undefined,
    isOnAnotherFork: false,
    dropsTransactions: false,
    forgetsSignatures: false,
    async createMint({ at, decimals = 6, program = TOKEN_PROGRAM } = {}) {
      const mint = at ?? (await solanaAccount(mints++)).address;
      const data = Buffer.alloc(MINT_BYTES);
      data.writeBigUInt64LE(10n ** 15n, 36);
      data.writeUInt8(decimals, 44);
      data.writeUInt8(1, 45);
      setAccount(mint, data, program);
      return mint;
    },
    async fund(owner, mint, amount, at) {
      const account = at ?? (await tokenAccountOf(owner, mint));
      const data = Buffer.alloc(TOKEN_ACCOUNT_BYTES);
      data.set(getAddressEncoder().encode(mint), 0);
      data.set(getAddressEncoder().encode(owner), 32);
      data.writeBigUInt64LE(amount, AMOUNT_AT);
      data.writeUInt8(1, 108);
      setAccount(account, data, TOKEN_PROGRAM);
      return account;
    },
    async close(owner, mint) {
      setAccount(await tokenAccountOf(owner, mint), new Uint8Array(), SYSTEM_PROGRAM, 0n);
    },
    unitsOf,
    lamportsOf: (account) => svm.getBalance(account as never) ?? 0n,
    airdrop: (account, amount) => void svm.airdrop(account as never, lamports(amount) as never),
    balanceOf: async (owner, mint) => unitsOf(await tokenAccountOf(owner, mint)),
    fork(how) {
      for (const one of landed.filter(({ slot: at }) => at > slotAt("finalized")).toReversed()) {
        for (const [i, units] of one.before.entries()) {
          const account = one.accounts[i] ?? "";
          const data = dataOf(account);
          if (units === undefined || data === undefined) continue;
          data.writeBigUInt64LE(units, AMOUNT_AT);
          setAccount(account as Address, data, TOKEN_PROGRAM);
        }
        const failed = { ...one, err: { InstructionError: [2, { Custom: 1 }] }, after: one.before };
        landed.splice(landed.indexOf(one), 1, ...(how === "fails" ? [failed] : []));
      }
    },
    passSlots(count) {
      slot += count;
      // LiteSVM takes the newest blockhash alone, so it stays the newest for as long as it is good.
      if (slot - (blockhashes.get(latestBlockhash()) ?? slot) > LIFETIME_SLOTS) svm.expireBlockhash();
    },
    stop: listener.stop,
  };
  for (const feePayer of [1, 4]) cluster.airdrop((await solanaAccount(feePayer)).address, 10_000_000_000n);
  return cluster;
}
