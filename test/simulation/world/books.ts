import type { Database, Statement } from "../../../src/store/sqlite/driver.ts";
import type { Transfer } from "./accounts.ts";
import type { Chain, Mined } from "./chain.ts";
import { type SignedPayment, UNCHECKED_ASSET } from "./laws.ts";
import type { Simulation } from "./simulation.ts";

interface RefundFacts {
  readonly call_id: number;
  readonly state: string;
  readonly amount: string;
  readonly hash: string | null;
  readonly decision: string | null;
  readonly nonce: string;
  readonly payment: string;
  readonly on_failure: string;
  readonly asset: string;
  readonly paid: string;
  readonly transfer_method: string;
  readonly call: string | null;
}

interface JournalFacts {
  readonly reference: string;
  readonly state: string;
  readonly account: string;
  readonly nonce: number;
  readonly mined_hash: string | null;
  readonly block_number: string | null;
}

/** Refunds on Solana wait for the operator: the gateways of these worlds have no account there. */
const OPEN = `SELECT (SELECT count(*) FROM settler_transactions WHERE state IN ('queued', 'sent'))
   + (SELECT count(*) FROM refunds
     WHERE state IN ('owed', 'sending', 'refund_failed') AND network LIKE 'eip155:%') AS n`;

/** Laws of the transactions that gateways send, of refunds, and of the books. */
export class Books {
  readonly #simulation: Simulation;
  readonly #chain: Chain;
  readonly #confirmations: number;
  readonly #database: Database;
  readonly #open: Statement<{ n: number }>;
  readonly #refundsTo: Statement<RefundFacts>;
  readonly #refundOf: Statement<{ state: string }>;
  /** Hashes of transactions that were found in the journal. */
  readonly #seen = new Set<string>();
  readonly #journalled: Statement<{ n: number }>;
  #checkedAt = 0;

  constructor(
    simulation: Simulation,
    parts: { readonly chain: Chain; readonly confirmations: number; readonly database: Database },
  ) {
    const { chain, confirmations, database } = parts;
    this.#simulation = simulation;
    this.#chain = chain;
    this.#confirmations = confirmations;
    this.#database = database;
    this.#open = database.prepare(OPEN);
    this.#refundsTo = database.prepare(
      `SELECT refunds.call_id, refunds.state, refunds.amount, hash, decision, nonce, payments.state AS payment, on_failure,
              lower(payments.asset) AS asset, payments.amount AS paid, transfer_method, (SELECT state FROM job_calls WHERE call_id = refunds.call_id) AS call
         FROM refunds JOIN payments USING (call_id) WHERE refunds.payer = ?`,
    );
    this.#refundOf = database.prepare("SELECT state FROM refunds WHERE call_id = ?");
    const isGiven = database.prepare<{ n: number }>(
      "SELECT count(*) AS n FROM settler_accounts WHERE account = ? AND last_nonce >= ?",
    );
    chain.accounts.onBroadcast = (from, nonce) => {
      if (isGiven.get([from, nonce])?.n !== 1)
        simulation.break(`nonce ${nonce} of ${from} was broadcast before it was journalled`);
    };
    this.#journalled = database.prepare(
      `SELECT count(*) AS n FROM settler_transactions
        WHERE account = ? AND nonce = ? AND (hash = ? OR EXISTS (SELECT 1 FROM json_each(earlier_hashes) WHERE value = ?))`,
    );
  }

  /** No transaction waits, and no refund. */
  isQuiet(): boolean {
    return this.#open.get([])?.n === 0;
  }

  /** A gateway sends a JobCall to a runner. */
  sent(callId: number): void {
    if (this.#chain.accounts.addresses.length === 0) return;
    const state = this.#refundOf.get([callId])?.state ?? "none";
    if (["sending", "refunded", "refund_failed"].includes(state))
      this.#simulation.break(`JobCall ${callId} runs, and its refund is ${state}`);
  }

  /** Laws of what the chain shows after each block. */
  check(): void {
    const { accounts, head } = this.#chain;
    if (accounts.addresses.length === 0) return;
    for (let number = this.#checkedAt + 1; number <= head.number; number++) {
      for (const mined of this.#chain.block(number)?.transactions ?? []) this.#checkJournalled(mined);
    }
    for (const transfer of accounts.transfers)
      if (transfer.block > this.#checkedAt) this.#checkTransfer(transfer);
    // A reorganisation may replace the newest blocks.
    this.#checkedAt = head.number - this.#confirmations;
  }

  #checkJournalled({ hash, sent }: Mined): void {
    if (sent === undefined || sent.isForeign) return;
    const { from, nonce } = sent;
    if (this.#seen.has(hash)) return;
    this.#seen.add(hash);
    if (this.#journalled.get([from, nonce, hash, hash])?.n !== 1)
      this.#simulation.break(`a transaction with nonce ${nonce} was mined, and is in no journal`);
  }

  #checkTransfer({ to, amount }: Transfer): void {
    const run = this.#simulation;
    const isSame = (refund: { readonly amount: string }) => BigInt(refund.amount) === amount;
    const begun = this.#refundsTo
      .all([to])
      .filter(({ state }) => state !== "owed" && state !== "declined" && state !== "cancelled");
    const transfers = this.#chain.accounts.transfers.filter((one) => one.to === to && one.amount === amount);
    const allowed = begun.filter(isSame);
    if (transfers.length > allowed.length)
      run.break(`${to} was paid back ${amount} ${transfers.length} times, for ${allowed.length} refunds`);
    for (const refund of allowed) {
      const { call_id, nonce, payment, paid, call, on_failure, decision, state, asset } = refund;
      // What a call has not used of a charge that was claimed early is owed to its payer as well.
      const isOfChannel = refund.transfer_method === "channel";
      if (payment !== "settled") run.break(`JobCall ${call_id} was paid back: its payment is ${payment}`);
      if (call !== "dead" && !isOfChannel)
        run.break(`JobCall ${call_id} was paid back: it is ${call ?? "gone"}`);
      if (amount > BigInt(paid)) run.break(`JobCall ${call_id} was paid back more than it cost`);
      if (state === "refund_failed")
        run.break(`the refund of JobCall ${call_id} is on the chain, and failed`);
      const isChosen = decision !== null && JSON.parse(decision).as === "approved";
      if (on_failure === "ask" && !isChosen)
        run.break(`JobCall ${call_id} was paid back, and nobody chose so`);
      if (isOfChannel || asset === UNCHECKED_ASSET) continue;
      if (!this.#isConfirmed(this.#chain.useOf({ payer: to, nonce })?.block))
        run.break(`JobCall ${call_id} was paid back, and nobody had paid for it`);
    }
  }

  /** Checks the journal, the refunds and the books against the chain, once everything is decided. */
  checkEnd(payments: readonly SignedPayment[]): void {
    this.#checkNonces();
    this.#checkRefunds();
    this.#checkBooks(payments);
  }

  /** Holds the journal's transactions against the chain's, whose nonces are all used. */
  #checkNonces(): void {
    const run = this.#simulation;
    const rows = this.#database
      .prepare<JournalFacts>(
        "SELECT reference, state, account, nonce, mined_hash, block_number FROM settler_transactions WHERE account IS NOT NULL",
      )
      .all([]);
    for (const { reference, state, nonce, mined_hash, block_number } of rows) {
      const { block, mined } = this.#chain.find(mined_hash ?? "") ?? {};
      const shown = mined?.isSuccess ? "succeeded" : "reverted";
      const isSame = mined?.sent?.nonce === nonce && String(block?.number) === block_number;
      if (!isSame || shown !== state)
        run.break(
          `transaction ${reference} has ${state} in block ${block_number}, which the chain does not show`,
        );
    }
    for (const { account, last } of this.#database
      .prepare<{ account: string; last: number }>("SELECT account, last_nonce AS last FROM settler_accounts")
      .all([])) {
      const count = this.#chain.accounts.at(account, this.#chain.head.number)?.nonce ?? 0;
      if (count <= last) run.break(`${account} has signed nonce ${last}, and the chain waits for ${count}`);
    }
  }

  #checkRefunds(): void {
    const run = this.#simulation;
    const { transfers } = this.#chain.accounts;
    const made = this.#database
      .prepare<Pick<RefundFacts, "call_id" | "hash" | "amount">>(
        // A charge that is charged back in its channel needs no transaction.
        "SELECT call_id, hash, amount FROM refunds WHERE state = 'refunded' AND hash IS NOT NULL",
      )
      .all([]);
    for (const { call_id, hash, amount } of made) {
      const found = transfers.find((transfer) => transfer.hash === hash);
      if (found === undefined || found.amount !== BigInt(amount))
        run.break(`JobCall ${call_id} counts as paid back, and the chain does not show it`);
    }
    if (made.length !== transfers.length)
      run.break(`${transfers.length} refunds were sent, and ${made.length} count as made`);
  }

  /** The sums of movements are what the accounts' balances have changed by. */
  #checkBooks(payments: readonly SignedPayment[]): void {
    const run = this.#simulation;
    const { accounts } = this.#chain;
    const booked = new Map<string, bigint>();
    const rows = this.#database
      .prepare<{ kind: string; account: string | null; amount: string }>(
        // What came in another token, facilitators alone know.
        `SELECT kind, lower(account) AS account, amount FROM movements
          WHERE (kind NOT IN ('payment', 'charge') OR asset IS NOT '${UNCHECKED_ASSET}')
            AND (kind = 'refund' OR coalesce(call_id, 0) NOT IN (SELECT call_id FROM payments WHERE transfer_method = 'channel'))`,
      )
      .all([]);
    for (const { kind, account, amount } of rows) {
      // A fork took away what was sold before its block was final.
      const isTaken = kind === "correction" && amount.startsWith("-");
      const key = kind === "payment" || kind === "charge" || isTaken ? "received" : `${kind} of ${account}`;
      booked.set(key, (booked.get(key) ?? 0n) + BigInt(amount));
    }
    const expect = (key: string, actual: bigint) => {
      if ((booked.get(key) ?? 0n) !== actual)
        run.break(`the books have ${key}: ${booked.get(key) ?? 0n}, and the chain ${actual}`);
    };
    const checked = payments.filter(({ asset }) => asset !== UNCHECKED_ASSET);
    const received = checked.map((payment) => payment.moved?.() ?? this.#chain.useOf(payment)?.amount ?? 0n);
    expect(
      "received",
      received.reduce((sum, amount) => sum + amount, 0n),
    );
    for (const address of accounts.addresses) {
      const { wei, tokens } = accounts.spent(address);
      expect(`refund of ${address}`, -tokens);
      expect(`network_fee of ${address}`, -wei);
    }
  }

  #isConfirmed(block: number | undefined): boolean {
    return block !== undefined && block <= this.#chain.head.number - (this.#confirmations - 1);
  }
}
