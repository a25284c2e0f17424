import { RefundState } from "../../gen/jobgate/v1/operator_pb.ts";
import { nameIn } from "../../operator/messages.ts";
import type { RefundState as RefundStateName } from "./store/ledger.ts";

export type { Refund } from "../../gen/jobgate/v1/operator_pb.ts";

/** The API's number for each state of a refund. */
export const REFUND_STATES = {
  owed: RefundState.OWED,
  sending: RefundState.SENDING,
  refunded: RefundState.REFUNDED,
  refund_failed: RefundState.REFUND_FAILED,
  declined: RefundState.DECLINED,
} as const satisfies Record<RefundStateName, RefundState>;

/** Name of a refund's state; a dash for a state that this version does not know. */
export function refundStateText(state: RefundState): string {
  return nameIn(REFUND_STATES, state) ?? "-";
}
