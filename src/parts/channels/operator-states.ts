import { ChannelChargeState, ChannelState } from "../../gen/jobgate/v1/operator_pb.ts";
import { nameIn } from "../../operator/messages.ts";
import type { ChannelStatus, ChargeRow } from "./store/row.ts";

export type { Channel, GetChannelResponse } from "../../gen/jobgate/v1/operator_pb.ts";

/** The API's number for each state of a channel. */
export const CHANNEL_STATES = {
  open: ChannelState.OPEN,
  refunding: ChannelState.REFUNDING,
  withdrawing: ChannelState.WITHDRAWING,
  stopped: ChannelState.STOPPED,
} as const satisfies Record<ChannelStatus, ChannelState>;

/** The API's number for each state of a charge. */
export const CHARGE_STATES = {
  undecided: ChannelChargeState.UNDECIDED,
  open: ChannelChargeState.OPEN,
  kept: ChannelChargeState.KEPT,
  returned: ChannelChargeState.RETURNED,
  asked: ChannelChargeState.ASKED,
} as const satisfies Record<ChargeRow["state"], ChannelChargeState>;

/** Name of a channel's state; a dash for a state that this version does not know. */
export function channelStateText(state: ChannelState): string {
  return nameIn(CHANNEL_STATES, state) ?? "-";
}

/** Name of a charge's state; a dash for a state that this version does not know. */
export function chargeStateText(state: ChannelChargeState): string {
  return nameIn(CHARGE_STATES, state) ?? "-";
}
