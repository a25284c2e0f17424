import type { AnyModule, ModuleCharge } from "../../../store/module.ts";
import type { ChargeRow } from "./row.ts";

interface ShownColumns {
  readonly charge_state: ChargeRow["state"] | null;
  readonly charges_back: ChargeRow["charges_back"];
  readonly charge_ceiling: string;
  readonly charge_used: string;
  readonly payment_state: string;
}

interface Settled {
  readonly extra?: { readonly channelState?: { readonly chargedCumulativeAmount?: string } };
}

/** Charge that the client of a metered call sees. */
export const SHOWN_CHARGE: NonNullable<AnyModule["shown"]> = {
  table: "channel_charges",
  columns:
    "channel_charges.state AS charge_state, charges_back, channel_charges.amount AS charge_ceiling, channel_charges.used AS charge_used",
  charge(row: ShownColumns): ModuleCharge | undefined {
    const { charge_state: state, charges_back, charge_ceiling: ceiling, payment_state } = row;
    if (state === null || charges_back === 0 || payment_state !== "settled") return undefined;
    if (state !== "kept" && state !== "returned")
      return { state: "authorized", ceiling, settlementWith: (settlement) => settlement };
    const amount = state === "kept" ? row.charge_used : "0";
    return {
      state: state === "kept" ? "settled" : "released",
      ...{ ceiling, amount },
      settlementWith: (settlement) => JSON.stringify(charged(JSON.parse(settlement), ceiling, amount)),
    };
  },
};

/** Returns a settlement with the charged amount. A voucher of which nothing was charged stays unused. */
function charged(settlement: Settled, ceiling: string, amount: string): Settled {
  const { extra } = settlement;
  const { channelState } = extra ?? {};
  const { chargedCumulativeAmount: cumulative = ceiling } = channelState ?? {};
  const base = amount === "0" ? String(BigInt(cumulative) - BigInt(ceiling)) : cumulative;
  return {
    ...settlement,
    extra: {
      ...extra,
      ...{ channelState: { ...channelState, chargedCumulativeAmount: base }, chargedAmount: amount },
    } as Settled["extra"] & object,
  };
}
