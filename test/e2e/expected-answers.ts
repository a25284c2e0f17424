import { expect } from "vitest";

/** Answer while it is unknown whether money moved. */
export const UNDECIDED = {
  status: 503,
  code: "settlement_unknown",
  charged: "unknown",
  retryable: true,
  retryAfter: "2",
} as const;

/** To be matched: paid, and the job is certain to run. */
export const ACCEPTED = {
  status: 202,
  settlement: expect.objectContaining({ success: true, network: "eip155:84532" }),
};

/** It is certain that nothing was paid, and never will be. */
export const FAILED = {
  status: 402,
  code: "settlement_failed",
  charged: false,
  retryable: false,
  settlement: expect.objectContaining({ success: false, transaction: "" }),
};

/** Nothing was asked to move. */
export const UNAVAILABLE = {
  status: 503,
  code: "facilitator_unavailable",
  charged: false,
  retryable: true,
  retryAfter: "2",
} as const;
