/**
 * Journal of the transactions with which jobgate settles payments itself: none is broadcast before its signed bytes are
 * written here. Any replica queues transactions; the replica that holds the network's lock signs and sends them.
 *
 * References are written and compared in lower case; accounts and hashes, as `oneSpelling` returns them.
 */
export interface TransactionJournal {
  /**
   * Queues a transaction. If the reference is known, the first transaction stays; a dropped transaction, which was
   * never signed, is queued again. Forgets transactions that were finished more than {@link FINISHED_MS} ago, but no
   * transaction that another part still needs.
   */
  queueTransaction(transaction: NewTransaction): Promise<void>;

  /**
   * Journals signed transactions, all or none. A `queued` transaction becomes `sent` with the next nonce of its
   * account. The bytes of a `sent` transaction are replaced at its nonce, and its earlier hashes are kept. The caller
   * broadcasts them afterwards.
   */
  signTransactions(
    network: string,
    owner: string,
    signed: readonly SignedTransaction[],
  ): Promise<SignTransactionsOutcome>;

  /** Records the ends of transactions. Leaves a transaction as it is if its state does not allow its end. */
  finishTransactions(
    network: string,
    owner: string,
    ends: readonly TransactionEnd[],
  ): Promise<"finished" | "not_owner">;

  /** Finds transactions by reference. Unknown and deleted transactions are left out. */
  findTransactions(network: string, references: readonly string[]): Promise<TransactionRecord[]>;

  /** Lists open transactions of one state, oldest first, and the last nonces. `after` is the `id` to page from. */
  listOpenTransactions(
    network: string,
    filter: {
      readonly state: "queued" | "sent";
      readonly limit: number;
      readonly after?: number | undefined;
    },
  ): Promise<OpenTransactions>;
}

/** Time for which a finished transaction is kept. */
export const FINISHED_MS = 24 * 60 * 60_000;

export interface NewTransaction {
  /** CAIP-2. */
  readonly network: string;
  /** Identifies the transaction on its network. A transaction that is queued twice under one reference is sent once. */
  readonly reference: string;
  /** Address of the called contract, or the account that the transaction pays. */
  readonly to: string;
  /** Call data, hex with `0x`; on chains that are not EVM chains, the data to sign. */
  readonly data: string;
  /** Unix seconds from which it is of no use. */
  readonly validBefore?: number | undefined;
}

export interface SignedTransaction {
  readonly reference: string;
  readonly account: string;
  readonly nonce: number;
  /** Signed bytes, in the encoding that the chain accepts. */
  readonly raw: string;
  readonly hash: string;
  /** Present hash of the `sent` transaction that these bytes replace. */
  readonly replaces?: string | undefined;
}

/**
 * - `queued`: waits for the owner of its network.
 * - `sent`: signed and perhaps broadcast; its nonce is taken, so it must be mined.
 * - `succeeded`, `reverted`: mined.
 * - `dropped`: given up before it was signed.
 */
export type TransactionState = "queued" | "sent" | "succeeded" | "reverted" | "dropped";

export interface TransactionRecord extends NewTransaction {
  /** Rises in the order of queueing. */
  readonly id: number;
  readonly state: TransactionState;
  /** Present unless it is queued or dropped. */
  readonly signed?: {
    readonly account: string;
    readonly nonce: number;
    readonly raw: string;
    readonly hash: string;
    /** Hashes of the bytes that were replaced, oldest first. One of them may be mined instead. */
    readonly earlierHashes: readonly string[];
    /** Time of the last signature, Unix milliseconds by the store's clock. */
    readonly at: number;
  };
  /** Set once the transaction is mined. */
  readonly mined?: { readonly hash: string; readonly blockNumber: string } | undefined;
  /** Reason why the transaction was dropped. */
  readonly reason?: string | undefined;
  /** Unix milliseconds. */
  readonly queuedAt: number;
}

export type SignTransactionsOutcome =
  | "signed"
  | "not_owner"
  /**
   * A transaction or the nonces of its account are no longer as the signer read them. List them again, then sign anew:
   * new nonces of one account must follow each other without a gap, after the account's last nonce.
   */
  | "stale";

/**
 * End of a transaction: mined, or given up before it was signed. A transaction that has not ended after all is `sent`
 * again because its block was reorganised, or `queued` again because a foreign transaction was mined with its nonce.
 */
export type TransactionEnd = { readonly reference: string } & (
  | {
      readonly state: "succeeded" | "reverted";
      readonly hash: string;
      readonly blockNumber: string;
      /** Cost to the account: wei, or 10⁻¹⁸ of the native unit of another chain. Undefined if the node does not report it. */
      readonly fee?: string;
    }
  | { readonly state: "dropped"; readonly reason: string }
  | { readonly state: "sent" | "queued" }
);

export interface OpenTransactions {
  readonly transactions: readonly TransactionRecord[];
  /** Last nonce of each account that has signed on the network; kept when its transactions are forgotten. */
  readonly lastNonces: readonly { readonly account: string; readonly nonce: number }[];
}
