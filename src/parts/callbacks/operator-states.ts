import { CallbackState } from "../../gen/jobgate/v1/operator_pb.ts";
import type { CallbackState as CallbackStateName } from "./store/ledger.ts";

/** The API's number for each state of a callback. */
export const CALLBACK_STATES = {
  pending: CallbackState.PENDING,
  sent: CallbackState.SENT,
  dead: CallbackState.DEAD,
} as const satisfies Record<CallbackStateName, CallbackState>;
