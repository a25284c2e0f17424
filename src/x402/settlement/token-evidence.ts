import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { AuthorizedPayment } from "./authorization.ts";
import type { Evidence } from "./payment-decision.ts";

/** A token whose chain can be queried, and how to query it. */
export interface TokenWatch {
  readonly token: AcceptedToken & { readonly rpcUrl: string };
  /** Blocks that confirm an event, its own included. */
  readonly confirmations: bigint;
  /** For one RPC call. */
  readonly rpcTimeoutMs: number;
  readonly telemetry: Telemetry;
}

/** Evidence that a chain has of the payments in one token. */
export interface TokenEvidence {
  /** Connects to the chain. @throws Error when it does not answer */
  connect(): Promise<Rpc>;
  /** Unix seconds of the newest block at the last look; undefined before the first look, and where blocks do not matter. */
  readonly lastTime?: bigint | undefined;
  /**
   * Returns a block before which no payment that begins now can have been settled, to search from later.
   * @throws Error when the chain cannot be queried and never could be
   */
  startBlock(): Promise<bigint>;
  /**
   * Looks for the use of an authorization that jobgate has not journalled yet.
   * @returns the transaction that used it, if the search finds it quickly; undefined when it is unused
   * @throws GatewayError `facilitator_unavailable` when the chain can never show a use
   * @throws Error when the chain cannot be queried
   */
  findEarlierUse(
    payment: Omit<AuthorizedPayment, "fromBlock">,
  ): Promise<{ readonly transaction?: string } | undefined>;
  /**
   * Takes one look at a payment. It takes two looks to believe *not paid*, which the caller sees to.
   * @param transaction the one that the facilitator named, to look there first
   * @throws Error when the chain cannot be queried
   */
  look(intent: PaymentIntent, transaction?: string): Promise<Evidence>;
}
