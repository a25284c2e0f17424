import { ChainClient } from "../../chain/chain-client.ts";
import type { Rpc } from "../../chain/rpc.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { AuthorizedPayment } from "../../x402/settlement/authorization.ts";
import type { Evidence } from "../../x402/settlement/payment-decision.ts";
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
import { readTransfer, type Transfer } from "./payment.ts";

/** Slots, about a minute, by which jobgate's node may have been behind the payer's when the payment began. */
const MAX_LAG_SLOTS = 150;
/** Slots after which every blockhash has expired, slots without a block included. */
const LIFETIME_SLOTS = 300;
/** Bounds of the search for a transaction. */
const MAX_PAGES = 20;

/** Evidence of payments on Solana: a message lands once, or its blockhash ends. Only finalized blocks count. */
export class SolanaEvidence implements TokenEvidence {
  readonly #client: ChainClient;

  constructor({ token, rpcTimeoutMs, telemetry }: TokenWatch) {
    const { rpcUrl, network } = token;
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
    const transfer = transferOf(payment);
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
    const transfer = transferOf(intent);
    const named = signature === undefined ? undefined : await readLanded(rpc, signature, "finalized");
    if (named?.messageHash === intent.key.nonce) return decide(transfer, intent, named);
    const mayLand = Date.now() < intent.validBefore * 1_000;
    if (mayLand && signature !== undefined) return open("the transaction is not finalized yet");
    const since = Number(intent.fromBlock ?? 0) - MAX_LAG_SLOTS;
    // Read before the search, so that the search covers every block that could take the transaction.
    const { isValid, slot } = await readBlockhash(rpc, transfer.transaction.blockhash);
    const search = { ...searchFor(transfer), since, atSlot: slot, maxPages: MAX_PAGES };
    const landed = await findLanded(rpc, { ...search, commitment: "finalized" });
    if (landed === "unfinished") return open("the search for the transaction goes on");
    if (landed !== undefined) return decide(transfer, intent, landed);
    // A finalized block that is older than the blockhash does not know the blockhash yet.
    const isKnown = slot >= Number(intent.fromBlock ?? 0) + MAX_LAG_SLOTS;
    if (mayLand || isValid || !isKnown) return open("the transaction is not finalized, and may still be");
    if ((await readFirstSlot(rpc)) > Math.max(0, since))
      return { kind: "unknown", reason: "the RPC no longer has the blocks that may have the transaction" };
    return {
      kind: "not_paid",
      reason: "the transaction's blockhash expired, and no block has the transaction",
    };
  }
}

function searchFor({ transaction, destination, memo }: Transfer) {
  return { messageHash: transaction.messageHash, account: destination, memo };
}

/** Decides by a finalized transaction. A transaction that failed has landed, too, and its message cannot land again. */
function decide({ destination }: Transfer, intent: PaymentIntent, landed: LandedTransaction): Evidence {
  const { signature, slot, hasFailed } = landed;
  if (hasFailed) return { kind: "not_paid", reason: "the transaction failed, and moved nothing" };
  const received = landed.received(destination);
  if (received === BigInt(intent.amount))
    return { kind: "paid", transaction: signature, blockNumber: String(slot) };
  return {
    kind: "unknown",
    reason: `the transaction ${signature} moved ${received} token units to ${destination}, in place of ${intent.amount}`,
  };
}

function transferOf({ payload }: Pick<PaymentIntent, "payload">): Transfer {
  const signed = JSON.parse(payload) as { readonly payload: { readonly transaction: string } };
  return readTransfer(signed.payload.transaction);
}

function open(reason: string): Evidence {
  return { kind: "open", reason };
}
