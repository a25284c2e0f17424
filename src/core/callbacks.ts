/** Events that jobgate calls back about. */
export const CALLBACK_EVENTS = [
  "payment.settled",
  "payment.unresolved",
  "refund.owed",
  "call.finished",
  "dead_letter",
] as const;

export type CallbackEvent = (typeof CALLBACK_EVENTS)[number];
