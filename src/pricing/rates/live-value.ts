/** What a live source says. */
export interface LiveValue {
  /** Decimal string > 0: whole tokens for one native unit. */
  readonly ratePerNativeUnit: string;
  /** From when it is, Unix milliseconds. */
  readonly asOf: number;
}

/** Asks a source once, within its time-out. @throws RateProblem */
export type AskRate = () => Promise<LiveValue>;

/** Why a source gives no rate that can be used. The message is for the operator, and holds no URL: it may hold a key. */
export class RateProblem extends Error {
  /** The key of the configuration that is to be looked at. */
  readonly key: "rpc_url" | "feed" | "url" | "pointer" | "max_age_secs";

  constructor(key: RateProblem["key"], message: string) {
    super(message);
    this.key = key;
  }
}
