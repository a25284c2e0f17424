import type { SentMoney } from "../../../store/machine/changes.ts";

/** The books: every movement of money, written with the change that made it known, and kept when payments are pruned. */
export interface Books {
  /**
   * Lists movements, oldest first: those after a place and before a time. What was listed of a time that has passed stays as
   * it is, because each movement has the time at which it was written.
   */
  listMovements(period: {
    readonly after: MovementPlace;
    /** Unix milliseconds. */
    readonly until: number;
    readonly limit: number;
  }): Promise<Movement[]>;
  /** Sums the movements of whole days, in an order for people. */
  sumMovements(period: SummedPeriod): Promise<readonly MovementSum[]>;
}

/** Days to sum, and what a sum is of: a token always, because tokens are not added to each other, and a job or a day. */
export interface SummedPeriod {
  /** Days since 1970, in UTC. */
  readonly from: number;
  /** Day after the last one. */
  readonly to: number;
  readonly by: MovementGroup;
}

/** `network` has the sums of `token`, in another order. */
export type MovementGroup = "token" | "network" | "job" | "day";

/** Sums of movements in one token, in base units. All but `corrected` and `net` are 0 or more. */
export interface MovementSum extends Pick<Movement, "network" | "token" | "decimals"> {
  readonly day: number | undefined;
  /** Undefined if jobs are not told apart, and for what is not of one job: fees and losses. */
  readonly job: { readonly serviceId: bigint; readonly jobIndex: number } | undefined;
  /** Number of payments and charges. */
  readonly payments: bigint;
  readonly sold: bigint;
  readonly refunded: bigint;
  /** Given back in payment channels. */
  readonly chargedBack: bigint;
  readonly lost: bigint;
  readonly fees: bigint;
  readonly corrected: bigint;
  /** Everything sold and corrected, minus all else. */
  readonly net: bigint;
}

/** Place of a movement in the books. IDs are positive, so the ID 0 is before all movements of its time. */
export interface MovementPlace {
  /** Unix milliseconds. */
  readonly at: number;
  readonly id: number;
}

/**
 * - `payment`: received for a job at a fixed price.
 * - `charge`: received for a job that is charged after it ran.
 * - `correction`: takes back a payment that the operator closed as paid, and the chain shows as not paid; or adds what the
 *   authorization of a released payment moved.
 *
 * Any other is the kind of a transaction of the seller that moved money ({@link SentMoney}), such as `network_fee`.
 */
export type MovementKind = "payment" | "charge" | "correction" | SentMoney["as"];

/** One change of one account's balance. What is not known is absent. */
export interface Movement extends MovementPlace {
  readonly kind: MovementKind;
  /** CAIP-2. */
  readonly network: string;
  /** Undefined means the network's own coin, in which fees are paid. */
  readonly token?: { readonly asset: string; readonly symbol: string } | undefined;
  readonly decimals: number;
  /** Base units, decimal: negative when they leave the account. */
  readonly amount: string;
  /** Own account. */
  readonly account?: string | undefined;
  /** The payer. */
  readonly counterparty?: string | undefined;
  readonly transaction?: string | undefined;
  readonly block?: string | undefined;
  /** The sale. Undefined if the movement is a fee. */
  readonly sale?:
    | {
        readonly callId: number;
        readonly serviceId: bigint;
        readonly jobIndex: number;
        /** Price of the job: wei in decimal, or dollars such as `$0.01`. */
        readonly price: string;
        /** Whole tokens for one unit of the price's currency, when the offer was made. */
        readonly rate?: string | undefined;
      }
    | undefined;
}
