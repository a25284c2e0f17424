import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { AuthorizedPayment } from "./authorization.ts";
import type { Evidence } from "./payment-decision.ts";

/** A token whose chain can be queried, and how to query it. */
export interface TokenWatch {
  readonly token: AcceptedToken & { readonly rpcUrl: string };
  /** Number of blocks that confirm an event, including its own. */
  readonly confirmations: bigint;
  /** Timeout of one RPC call. */
  readonly rpcTimeoutMs: number;
  readonly telemetry: Telemetry;
}

/** Evidence that a chain has of the payments in one token. */
export interface TokenEvidence {
  /** Connects to the chain. @throws Error when the chain does not answer */
  connect(): Promise<Rpc>;
  /**
   * Unix seconds of the newest block at the last observation; undefined before the first observation, and if blocks do not
   * matter.
   */
  readonly lastTime?: bigint | undefined;
  /**
   * Returns a block before which no payment that begins now can have been settled, to search from later.
   * @throws Error when the chain cannot be queried, and could not be queried before
   */
  startBlock(): Promise<bigint>;
  /**
   * Searches for the use of an authorization that jobgate has not journalled yet.
   * @returns the transaction that used it, if the search finds it quickly; undefined when it is unused
   * @throws GatewayError `facilitator_unavailable` when the chain can never show a use
   * @throws Error when the chain cannot be queried
   */
  findEarlierUse(
    payment: Omit<AuthorizedPayment, "fromBlock">,
  ): Promise<{ readonly transaction?: string } | undefined>;
  /**
   * Observes a payment once. The caller requires two observations before it accepts *not paid*.
   * @param transaction transaction that the facilitator named, which is read first
   * @throws Error when the chain cannot be queried
   */
  look(intent: PaymentIntent, transaction?: string): Promise<Evidence>;
}
