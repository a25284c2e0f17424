import type { SentMoney } from "../../../store/machine/changes.ts";

/** The books: every movement of money, written with the change that made it known, and kept when payments are pruned. */
export interface Books {
  /**
   * Lists the movements after a place and before a time, oldest first. The list of a time that has passed does not
   * change, because each movement has the time at which it was written.
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

/**
 * Days to sum, and the grouping of the sums. Each sum is of one token, because tokens are not added to each other, and
 * can also be of one job or one day.
 */
export interface SummedPeriod {
  /** Days since 1970, in UTC. */
  readonly from: number;
  /** Day after the last day. */
  readonly to: number;
  readonly by: MovementGroup;
}

/** `network` has the sums of `token`, in another order. */
export type MovementGroup = "token" | "network" | "job" | "day";

/** Sums of movements in one token, in base units. All sums except `corrected` and `net` are 0 or more. */
export interface MovementSum extends Pick<Movement, "network" | "token" | "decimals"> {
  readonly day: number | undefined;
  /** Undefined if the sums are not by job, and for fees and losses, which belong to no single job. */
  readonly job: { readonly serviceId: bigint; readonly jobIndex: number } | undefined;
  /** Number of payments and charges. */
  readonly payments: bigint;
  readonly sold: bigint;
  readonly refunded: bigint;
  /** Amount that was given back in payment channels. */
  readonly chargedBack: bigint;
  readonly lost: bigint;
  readonly fees: bigint;
  readonly corrected: bigint;
  /** `sold` and `corrected`, minus all other amounts. */
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
 * - `correction`: takes back a payment that the operator closed as paid although the chain shows that it was not paid.
 * A correction can also add the money that the authorization of a released payment moved.
 *
 * Any other kind is the kind of a transaction of the seller that moved money ({@link SentMoney}), such as
 * `network_fee`.
 */
export type MovementKind = "payment" | "charge" | "correction" | SentMoney["as"];

/** One change of one account's balance. Fields whose values are not known are left out. */
export interface Movement extends MovementPlace {
  readonly kind: MovementKind;
  /** CAIP-2. */
  readonly network: string;
  /** Undefined means the network's own coin, in which fees are paid. */
  readonly token?: { readonly asset: string; readonly symbol: string } | undefined;
  readonly decimals: number;
  /** Base units, decimal; negative if the money leaves the account. */
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
        /** Whole tokens for one unit of the price's currency, at the time of the offer. */
        readonly rate?: string | undefined;
      }
    | undefined;
}
