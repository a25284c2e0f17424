import type {
  FacilitatorRequest,
  SettlementAnswer,
  Verification,
} from "../../../x402/facilitators/facilitator.ts";
import type {
  FeePayerAccess,
  NetworkSettlement,
  OwnSettlement,
  SettlementParts,
} from "../../../x402/facilitators/own-settlement.ts";
import { Changes } from "../../transactions/changes.ts";
import { Funds } from "../../transactions/funds.ts";
import { settlerGauges } from "../../transactions/settler-gauges.ts";
import type { TransactionJournal } from "../../transactions/store/journal.ts";
import { TRANSACTIONS } from "../../transactions/store/module.ts";
import { readKey, type SolanaKey } from "../key.ts";
import { OwnChain } from "./own-chain.ts";
import { SolanaTransfers } from "./own-transfers.ts";
import { SolanaSender } from "./sender.ts";
import { readSettlement, type Settlement } from "./settlement.ts";
import { SettlementSigner, signTransaction } from "./settlement-signer.ts";

/** Interval between checks of a transaction that a request waits for. */
const POLL_MS = 250;

/** Settles payments on one cluster as the fee payer of their transactions. */
class SolanaSettler implements NetworkSettlement {
  readonly #parts: SettlementParts;
  readonly #feePayer: SolanaKey;
  readonly #chain: OwnChain;
  readonly #journal: TransactionJournal;
  readonly #funds: Funds;
  readonly #changes = new Changes();
  readonly #sender: SolanaSender;

  constructor(parts: SettlementParts) {
    const { network, owner, minBalanceWei, store, clock, logger } = parts;
    this.#parts = parts;
    this.#feePayer = keyOf(parts);
    this.#chain = new OwnChain(parts);
    this.#journal = store.of(TRANSACTIONS);
    const addresses = [this.address];
    this.#funds = new Funds({ network, chain: this.#chain, addresses, minBalanceWei, clock, logger });
    this.#sender = new SolanaSender({
      ...{ network, owner, clock, logger },
      signer: new SettlementSigner(this.#feePayer, this.#chain),
      journal: this.#journal,
      locks: store,
      isShared: store.isShared,
      chain: this.#chain,
      changes: this.#changes,
    });
  }

  get address(): string {
    return this.#feePayer.address;
  }

  get extra(): { readonly feePayer: string } {
    return { feePayer: this.address };
  }

  start(): Promise<void> {
    return this.#sender.start();
  }

  stop(): Promise<void> {
    return this.#sender.stop();
  }

  async verify(request: FacilitatorRequest): Promise<Verification> {
    const read = readSettlement(request, this.address);
    if ("reason" in read) return { kind: "invalid", reason: read.reason };
    const [error] = await Promise.all([this.#chain.simulate(read.base64), this.#funds.require()]);
    return error === undefined
      ? { kind: "valid", payer: read.payer }
      : { kind: "invalid", reason: `transaction_simulation_failed: ${error}` };
  }

  async settle(request: FacilitatorRequest, deadlineMs: number): Promise<SettlementAnswer> {
    const read = readSettlement(request, this.address);
    if ("reason" in read) return { kind: "refused", reason: read.reason };
    try {
      return await this.#settle(read, deadlineMs);
    } catch (error) {
      this.#parts.logger.debug({ err: error, reference: read.reference }, "a settlement is undecided");
      return { kind: "no_answer", reason: error instanceof Error ? error.message : "not settled" };
    }
  }

  async #settle(
    { reference, base64, payer, destination }: Settlement,
    deadlineMs: number,
  ): Promise<SettlementAnswer> {
    const { network } = this.#parts;
    const [known] = await this.#journal.findTransactions(network, [reference]);
    if (known === undefined || known.state === "dropped") {
      const error = await this.#chain.simulate(base64);
      if (error !== undefined) return { kind: "refused", reason: `transaction_simulation_failed: ${error}` };
      await this.#journal.queueTransaction({ network, reference, to: destination, data: base64 });
      this.#sender.poke();
    }
    const { hash: transaction } = signTransaction(this.#feePayer, base64);
    const found = await this.#changes.until(reference, () => this.#look(reference, transaction), {
      pollMs: () => POLL_MS,
      leftMs: () => deadlineMs - this.#parts.clock(),
    });
    if (found === undefined) return { kind: "refused", reason: "settlement_pending", transaction };
    if (found === "landed") return { kind: "success", transaction, network, payer };
    return { kind: "refused", reason: found, transaction };
  }

  /** @returns undefined while nothing is known; `landed`; or the reason why the transaction moved nothing */
  async #look(reference: string, signature: string): Promise<string | undefined> {
    // The request continues to wait after an unanswered call.
    const [status] = await this.#chain.statuses([signature]).catch(() => []);
    if (status !== undefined) return status.hasFailed ? "transaction_failed" : "landed";
    const [record] = await this.#journal.findTransactions(this.#parts.network, [reference]);
    return record?.state === "dropped" ? "transaction_expired" : undefined;
  }

  holdings() {
    return this.#funds.holdings();
  }

  gauges() {
    const { network } = this.#parts;
    return settlerGauges({
      network,
      balances: this.#funds.lastBalances(),
      unmined: this.#sender.unmined,
    });
  }
}

/** Sends transactions on Solana. */
export const solanaSettlement: OwnSettlement = {
  has: (network) => network.startsWith("solana:"),
  open: (parts) => new SolanaSettler(parts),
  openTransfers: (parts) => new SolanaTransfers(parts, keyOf(parts)),
  async readBalance(access) {
    const account = keyOf(access).address;
    return { account, balanceWei: await new OwnChain(access).balance(account) };
  },
  readTokens: (access, mint) => new OwnChain(access).tokens(keyOf(access).address, mint),
};

function keyOf({ feePayer }: FeePayerAccess): SolanaKey {
  const key = readKey(feePayer);
  if (key === undefined) throw new Error("the key of the fee payer is malformed");
  return key;
}
