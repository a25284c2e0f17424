import { PART_MODULES } from "../../../store/part-modules.ts";

/** Events that jobgate calls back about. */
export const CALLBACK_EVENTS = [
  "payment.settled",
  "payment.unresolved",
  ...PART_MODULES.flatMap(({ announces = [] }) => announces),
  ...["call.finished", "dead_letter"],
] as const;
