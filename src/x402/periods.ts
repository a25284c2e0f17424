/** Periods of the gateway unless it is built with others. Milliseconds. */
export const DEFAULT_PERIODS = {
  /** Longest time of one RPC call. */
  rpcTimeoutMs: 5_000,
  /** Time between the two looks at the chain that it takes to say that a payment was not paid. */
  secondLookAfterMs: 500,
  /** Time after which a settlement without the facilitator's answer is first looked for on the chain. */
  pendingLookMs: 1_000,
  /** Time after which the next facilitator is asked to verify too. */
  verifyPatienceMs: 3_000,
  /** Time between two rounds of the reconciler. */
  roundMs: 1_000,
  /** Time between the reconciler's first two checks of a payment. */
  firstDelayMs: 1_000,
  /** Time between two looks at unresolved and decided payments. */
  slowRoundMs: 60_000,
  /** Time between two looks at a call that a client waits for, in case no event reports a change. */
  callPollMs: 1_000,
};

export type X402Periods = Readonly<
  typeof DEFAULT_PERIODS & {
    /** Longest time that a request waits for the chain to confirm a settlement. Default: the facilitator's time-out. */
    confirmationTimeoutMs: number;
  }
>;
