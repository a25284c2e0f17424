/** Events that jobgate calls back about. */
export const CALLBACK_EVENTS = [
  "payment.settled",
  "payment.unresolved",
  "refund.owed",
  "refund.sent",
  "refund.failed",
  "call.finished",
  "dead_letter",
] as const;

export type CallbackEvent = (typeof CALLBACK_EVENTS)[number];

/** `dead`: given up. */
export type CallbackState = "pending" | "sent" | "dead";

/** Returns a URL as it is kept and compared; undefined for a text that is no URL. */
export function normalUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  url.hash = "";
  return url.href;
}
