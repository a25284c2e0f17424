import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import type { Locks } from "../../core/lease-lock.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { Store } from "../../store/store.ts";
import type { SendingAccounts } from "../holding.ts";
import type { TransferSender } from "../transfer-sender.ts";
import type { FacilitatorRequest, KindExtra, SettlementAnswer, Verification } from "./facilitator.ts";

/** A network, and the key of the account that pays for transactions on it. */
export interface FeePayerAccess {
  /** CAIP-2. */
  readonly network: string;
  readonly rpcUrl: string;
  readonly rpcTimeoutMs: number;
  /** Key of the account, as the configuration parsed it. */
  readonly feePayer: string;
}

export interface SettlementParts extends FeePayerAccess {
  /** Owner name that is unique to the life of this process. */
  readonly owner: string;
  /** Minimum balance, in 10⁻¹⁸ of the network's native unit. */
  readonly minBalanceWei: bigint;
  readonly store: Pick<Store, "of" | "isShared"> & Locks;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

/** Account that sends tokens, its queue, and what it reports. */
export interface TransferParts extends SettlementParts {
  /** Name of the transfers' queue in the journal. */
  readonly queue: string;
  /** Called when the account becomes short of the network's coin, which has this symbol. */
  readonly onShort: (account: string, coin: string) => void;
  /** Called when a queued transaction cannot be simulated for now. */
  readonly onDelay: (reference: string, reason: string) => void;
}

/** Sender of transactions on networks of one kind that is not EVM, from an account of jobgate. */
export interface OwnSettlement {
  /** Returns true if a CAIP-2 network is of the kind. */
  has(network: string): boolean;
  open(parts: SettlementParts): NetworkSettlement;
  /** Opens a sender of tokens from the account, with a separate queue. */
  openTransfers(parts: TransferParts): TransferSender;
  /**
   * Reads the account's balance, in 10⁻¹⁸ of the native unit.
   * @throws Error when the RPC does not answer or belongs to another network
   */
  readBalance(access: FeePayerAccess): Promise<{ readonly account: string; readonly balanceWei: bigint }>;
  /** Reads the units of a token that the account holds. @throws Error as {@link readBalance} does */
  readTokens(access: FeePayerAccess, asset: string): Promise<bigint>;
}

/** Settles the payments on one network. */
export interface NetworkSettlement extends BackgroundService, SendingAccounts {
  /** Address that sends transactions. */
  readonly address: string;
  /** Fields that `/supported` lists for the scheme `exact` on the network. */
  readonly extra: KindExtra;
  /** @throws GatewayError `settler_unfunded`; another error when the chain does not answer */
  verify(request: FacilitatorRequest): Promise<Verification>;
  /** Sends the payment's transaction once, however often it is called. Never rejects. */
  settle(request: FacilitatorRequest, deadlineMs: number): Promise<SettlementAnswer>;
}
