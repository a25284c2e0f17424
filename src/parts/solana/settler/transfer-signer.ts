import { randomBytes } from "node:crypto";
import type { TransferParts } from "../../../x402/facilitators/own-settlement.ts";
import type { TransactionEnd, TransactionRecord } from "../../transactions/store/journal.ts";
import { tokenAccountOf } from "../addresses.ts";
import { findLanded, readAccount, readBlockhash, readFirstSlot } from "../chain.ts";
import type { SolanaKey } from "../key.ts";
import { PROGRAMS } from "../portable/addresses.ts";
import {
  computeBudget,
  memoOf,
  messageOf,
  type NewInstruction,
  transactionOf,
  transferChecked,
} from "../portable/transfer.ts";
import { parseTransaction, SIGNATURE_BYTES } from "../transaction.ts";
import type { OwnChain } from "./own-chain.ts";
import type { Signed, TransactionSigner } from "./sender.ts";
import { signTransaction } from "./settlement-signer.ts";

/** A transfer as the journal queues it. Accounts are addresses. */
export interface TransferData {
  readonly mint: string;
  readonly decimals: number;
  /** Token units, decimal. */
  readonly amount: string;
  /** Owner of the account that the token goes to. */
  readonly owner: string;
  /** Account that the token goes to. The owner's associated account is made if it is missing. */
  readonly destination: string;
}

type Watch = Pick<TransferParts, "onShort" | "onDelay">;

/** Compute units of a transfer that makes the account, and their price in millionths of a lamport. */
const COMPUTE_UNIT_LIMIT = 80_000;
const COMPUTE_UNIT_PRICE = 50_000n;
/** Lamports of one signature and of the compute units. */
const FEE = 5_000n + (BigInt(COMPUTE_UNIT_LIMIT) * COMPUTE_UNIT_PRICE) / 1_000_000n;
/** Lamports that an account of the SPL Token program must hold, and that any account must keep. */
const TOKEN_ACCOUNT_RENT = 2_039_280n;
const ACCOUNT_RENT = 890_880n;
const WEI_PER_LAMPORT = 1_000_000_000n;
/** Bound of the search for a transaction. */
const MAX_PAGES = 20;
/** Longest part of a node's words that is kept as reason. */
const MAX_REASON_LENGTH = 300;

/**
 * Signs transfers, each with the newest finalized blockhash. A transfer is signed anew only after a finalized block has shown that
 * its blockhash has expired and that no block has its transaction.
 */
export class TransferSigner implements TransactionSigner {
  readonly expired = "queued";
  readonly #key: SolanaKey;
  readonly #chain: OwnChain;
  readonly #watch: Watch;
  /** Hashes of the transactions whose blocks the RPC no longer has. */
  readonly #lost = new Set<string>();
  /** Hashes of transactions that, according to the operator, no block contains. */
  readonly #notMined = new Set<string>();
  #isShort = false;
  /** References of transfers that wait for the node. */
  readonly #delayed = new Set<string>();

  constructor(watch: Watch, key: SolanaKey, chain: OwnChain) {
    this.#watch = watch;
    this.#key = key;
    this.#chain = chain;
  }

  get account(): string {
    return this.#key.address;
  }

  async sign(queued: readonly TransactionRecord[]) {
    const latest = await this.#chain.finalizedBlockhash();
    let lamports = (await this.#chain.balance(this.account)) / WEI_PER_LAMPORT - ACCOUNT_RENT;
    const costs = await Promise.all(queued.map(({ to }) => this.#costOf(to)));
    const affordable = queued.filter((_, i) => {
      lamports -= costs[i] ?? 0n;
      return lamports >= 0n;
    });
    this.#noteShort(affordable.length < queued.length);
    const signed: Signed[] = [];
    const refused: TransactionEnd[] = [];
    const made = await Promise.all(
      affordable.map(async (record) => {
        const base64 = this.#transaction(record, latest);
        return { record, base64, reason: await this.#chain.simulate(base64) };
      }),
    );
    for (const { record, base64, reason } of made) {
      const { reference } = record;
      if (reason === undefined) signed.push({ reference, ...signTransaction(this.#key, base64) });
      else if (isLasting(reason))
        refused.push({ reference, state: "dropped", reason: reason.slice(0, MAX_REASON_LENGTH) });
      this.#noteDelay(reference, reason);
    }
    return { signed, refused };
  }

  /** Runs the transaction of a transfer without sending it. @returns the error that it would end with */
  async simulate(record: Pick<TransactionRecord, "reference" | "data">): Promise<string | undefined> {
    return this.#chain.simulate(this.#transaction(record, await this.#chain.finalizedBlockhash()));
  }

  /** A block up to the finalized one may have the transaction, and the search for it covers all of these blocks. */
  async hasExpired({ data, signed }: TransactionRecord): Promise<boolean> {
    const hash = signed?.hash ?? "";
    const { messageHash, blockhash, instructions } = parseTransaction(
      Buffer.from(signed?.raw ?? "", "base64"),
    );
    const memo = Buffer.from(instructions.at(-1)?.data ?? []).toString();
    const since = Number(memo.split(" ")[1]);
    const rpc = await this.#chain.connect();
    const { isValid, slot } = await readBlockhash(rpc, blockhash);
    // A node that is behind the block of the signature does not know the blockhash yet.
    if (isValid || slot < since) return false;
    const landed = await findLanded(rpc, {
      messageHash,
      account: tokenAccountOf(this.account, readQueued(data).mint),
      ...{ memo, since, atSlot: slot, commitment: "finalized", maxPages: MAX_PAGES },
    });
    if (landed !== undefined) return false;
    const isCertain = this.#notMined.has(hash) || (await readFirstSlot(rpc)) <= since;
    if (isCertain) this.#lost.delete(hash);
    else this.#lost.add(hash);
    return isCertain;
  }

  /** Reports whether a transaction may be in blocks that the RPC no longer has. */
  isLost(hash: string): boolean {
    return this.#lost.has(hash) && !this.#notMined.has(hash);
  }

  /**
   * Lets a lost transaction be signed anew once its blockhash has expired, because the operator states that no block
   * contains it.
   */
  giveUp(hash: string): void {
    this.#notMined.add(hash);
  }

  async #costOf(destination: string): Promise<bigint> {
    const found = await readAccount(await this.#chain.connect(), destination);
    return found === undefined ? FEE + TOKEN_ACCOUNT_RENT : FEE;
  }

  #noteDelay(reference: string, reason: string | undefined): void {
    const isDelayed = reason !== undefined && !isLasting(reason);
    if (isDelayed && !this.#delayed.has(reference)) this.#watch.onDelay(reference, reason);
    if (isDelayed) this.#delayed.add(reference);
    else this.#delayed.delete(reference);
  }

  #noteShort(isShort: boolean): void {
    if (isShort && !this.#isShort) this.#watch.onShort(this.account, "SOL");
    this.#isShort = isShort;
  }

  #transaction(
    { reference, data }: Pick<TransactionRecord, "reference" | "data">,
    { blockhash, slot }: { readonly blockhash: string; readonly slot: number },
  ): string {
    const { account } = this;
    const transfer = readQueued(data);
    const { mint, decimals, owner, destination } = transfer;
    const source = tokenAccountOf(account, mint);
    const message = messageOf({
      signers: [account],
      writable: [...new Set([source, destination])],
      blockhash,
      instructions: [
        ...computeBudget(COMPUTE_UNIT_LIMIT, COMPUTE_UNIT_PRICE),
        ...(destination === tokenAccountOf(owner, mint) ? [createAccount(account, transfer)] : []),
        transferChecked(
          { source, mint, destination, authority: account },
          { amount: BigInt(transfer.amount), decimals },
        ),
        // The slot is where a search for the transaction starts. The other fields distinguish transfers that several jobgates
        // send from one account.
        memoOf(`${reference} ${slot} ${randomBytes(8).toString("hex")}`),
      ],
    });
    return Buffer.from(transactionOf(message, [new Uint8Array(SIGNATURE_BYTES)])).toString("base64");
  }
}

/**
 * Reports whether a program refused the transaction. Any other error may be temporary, because the node may not know the
 * blockhash yet, or the account may lack SOL.
 */
export function isLasting(error: string): boolean {
  return error.startsWith('{"InstructionError"');
}

function readQueued(data: string): TransferData {
  return JSON.parse(data) as TransferData;
}

/** Makes the associated account unless there is one. The payer pays its rent. */
function createAccount(payer: string, { owner, mint, destination }: TransferData): NewInstruction {
  const { associatedToken: program, system, token } = PROGRAMS;
  return { program, accounts: [payer, destination, owner, mint, system, token], data: [1] };
}
