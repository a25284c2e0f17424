import type { Operation } from "../batch/operations.ts";

/** JobCalls of which a batch has ended a lease that another process had given out. `outcomes` is in the operations' order. */
export function endedLeasesOfOthers(
  operations: readonly Operation[],
  outcomes: readonly unknown[],
): number[] {
  return operations.flatMap((operation, index) => {
    if (operation.name !== "ack" && operation.name !== "retry" && operation.name !== "fail") return [];
    const { callId, fromElsewhere = false } = operation.input.lease;
    return fromElsewhere && outcomes[index] === "done" ? [callId] : [];
  });
}
