import { ChainClient } from "../../chain/chain-client.ts";
import type { Rpc } from "../../chain/rpc.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { AuthorizedPayment } from "../../x402/settlement/authorization.ts";
import type { Evidence, PaidEvidence } from "../../x402/settlement/payment-decision.ts";
import type { TokenEvidence, TokenWatch } from "../../x402/settlement/token-evidence.ts";
import {
  findLanded,
  type LandedTransaction,
  readBlockhash,
  readFirstSlot,
  readLanded,
  readReference,
  readSlot,
} from "./chain.ts";
import { commitmentOf } from "./config.ts";
import { type Transfer, transferIn } from "./payment.ts";

/**
 * Number of slots, about a minute, by which jobgate's node may have lagged behind the payer's node when the payment
 * began.
 */
const MAX_LAG_SLOTS = 150;
/** Number of slots after which every blockhash has expired, including slots without a block. */
const LIFETIME_SLOTS = 300;
/** Bounds of the search for a transaction. */
const MAX_PAGES = 20;

/**
 * Evidence of payments on Solana: a message lands once, or its blockhash ends. A payment is paid at the token's commitment, and not
 * paid only at finalized blocks.
 */
export class SolanaEvidence implements TokenEvidence {
  readonly #client: ChainClient;
  readonly #sellsEarly: boolean;

  constructor({ token, rpcTimeoutMs, telemetry }: TokenWatch) {
    const { rpcUrl, network } = token;
    this.#sellsEarly = commitmentOf(token) === "confirmed";
    this.#client = new ChainClient(
      { rpcUrl, timeoutMs: rpcTimeoutMs, observer: { telemetry, purpose: "evidence" } },
      { id: network.slice("solana:".length), read: readReference },
    );
  }

  connect(): Promise<Rpc> {
    return this.#client.connect();
  }

  async startBlock(): Promise<bigint> {
    return BigInt(await readSlot(await this.#client.connect(), "confirmed"));
  }

  async findEarlierUse(
    payment: Omit<AuthorizedPayment, "fromBlock">,
  ): Promise<{ readonly transaction?: string } | undefined> {
    const rpc = await this.#client.connect();
    const since = (await readSlot(rpc, "confirmed")) - LIFETIME_SLOTS - MAX_LAG_SLOTS;
    const transfer = transferIn(payment);
    const landed = await findLanded(rpc, {
      ...searchFor(transfer),
      since,
      commitment: "confirmed",
      maxPages: 1,
    });
    return landed === undefined || landed === "unfinished" ? undefined : { transaction: landed.signature };
  }

  async look(intent: PaymentIntent, signature?: string): Promise<Evidence> {
    const rpc = await this.#client.connect();
    const transfer = transferIn(intent);
    const named = signature === undefined ? undefined : await this.#lookAt(rpc, signature);
    if (named?.final?.messageHash === intent.key.nonce) return decide(transfer, intent, named.final);
    if (named?.early?.messageHash === intent.key.nonce && isPaid(transfer, intent, named.early))
      return early(named.early);
    const mayLand = Date.now() < intent.validBefore * 1_000;
    if (mayLand && signature !== undefined) return open("the transaction is not finalized yet");
    const since = Number(intent.fromBlock ?? 0) - MAX_LAG_SLOTS;
    // This is read before the search, so that the search covers every block that could contain the transaction.
    const { isValid, slot } = await readBlockhash(rpc, transfer.transaction.blockhash);
    const search = { ...searchFor(transfer), since, atSlot: slot, maxPages: MAX_PAGES };
    const landed = await findLanded(rpc, { ...search, commitment: "finalized" });
    if (landed === "unfinished") return open("the search for the transaction goes on");
    if (landed !== undefined) return decide(transfer, intent, landed);
    // A finalized block that is older than the blockhash does not know the blockhash yet.
    const isKnown = slot >= Number(intent.fromBlock ?? 0) + MAX_LAG_SLOTS;
    if (isValid) return this.#lookAhead(rpc, { transfer, intent, search });
    if (mayLand || !isKnown) return open("the transaction is not finalized, and may still be");
    if ((await readFirstSlot(rpc)) > Math.max(0, since))
      return { kind: "unknown", reason: "the RPC no longer has the blocks that may have the transaction" };
    return {
      kind: "not_paid",
      reason: "the transaction's blockhash expired, and no block has the transaction",
    };
  }

  /** Reads a transaction in the finalized blocks and, if payments are sold before they are final, in the confirmed blocks. */
  async #lookAt(rpc: Rpc, signature: string) {
    const [final, early] = await Promise.all([
      readLanded(rpc, signature, "finalized"),
      this.#sellsEarly ? readLanded(rpc, signature, "confirmed") : undefined,
    ]);
    return { final, early };
  }

  /** Searches the blocks that are not finalized yet for a transaction, which may still land. */
  async #lookAhead(
    rpc: Rpc,
    {
      transfer,
      intent,
      search,
    }: {
      readonly transfer: Transfer;
      readonly intent: PaymentIntent;
      readonly search: Omit<Parameters<typeof findLanded>[1], "commitment">;
    },
  ): Promise<Evidence> {
    const ahead = await findLanded(rpc, { ...search, commitment: "confirmed" });
    if (this.#sellsEarly && typeof ahead === "object" && isPaid(transfer, intent, ahead)) return early(ahead);
    if (ahead !== undefined) return open("the transaction is not finalized yet");
    return { ...open("the transaction may still land"), isUnused: true };
  }
}

function searchFor({ transaction, destination, memo }: Transfer) {
  return { messageHash: transaction.messageHash, account: destination, memo };
}

/** Decides by a finalized transaction. A transaction that failed has also landed, and its message cannot land again. */
function decide(transfer: Transfer, intent: PaymentIntent, landed: LandedTransaction): Evidence {
  if (landed.hasFailed) return { kind: "not_paid", reason: "the transaction failed, and moved nothing" };
  if (isPaid(transfer, intent, landed)) return paid(landed);
  const { destination } = transfer;
  return {
    kind: "unknown",
    reason: `the transaction ${landed.signature} moved ${landed.received(destination)} token units to ${destination}, in place of ${intent.amount}`,
  };
}

/** Reports whether a transaction that landed has moved exactly the payment's amount. */
function isPaid({ destination }: Transfer, { amount }: PaymentIntent, landed: LandedTransaction): boolean {
  return !landed.hasFailed && landed.received(destination) === BigInt(amount);
}

function paid({ signature, slot }: LandedTransaction): PaidEvidence {
  return { kind: "paid", transaction: signature, blockNumber: String(slot) };
}

/** A fork may still replace the block. */
function early(landed: LandedTransaction): PaidEvidence {
  return { ...paid(landed), mayBeReplaced: true };
}

function open(reason: string): Evidence & { readonly kind: "open" } {
  return { kind: "open", reason };
}
