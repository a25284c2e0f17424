import type { AcceptOnceOutcome, Delivery } from "../contract/intake.ts";

/** A remembered key of an earlier delivery. */
export interface KnownDelivery {
  readonly body_hash: string;
  readonly call_id: number;
}

/**
 * Decides whether a delivery repeats an earlier one.
 * @param find looks up a key that has not expired
 * @returns undefined when the delivery is new
 */
export function repeatOf(
  { keys, bodyHash }: Delivery,
  find: (key: string) => KnownDelivery | undefined,
): Extract<AcceptOnceOutcome, { kind: "duplicate" | "conflict" }> | undefined {
  const found = keys.flatMap(({ key, identifies }) => (identifies ? (find(key) ?? []) : []));
  const [first] = found;
  if (first === undefined) return undefined;
  return found.every(({ body_hash }) => body_hash === bodyHash)
    ? { kind: "duplicate", callId: first.call_id }
    : { kind: "conflict" };
}
