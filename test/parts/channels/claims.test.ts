import { pino } from "pino";
import { expect, it } from "vitest";
import type { AcceptedToken } from "../../../src/config/config.ts";
import { parseDollars, type UsdPrice } from "../../../src/core/amounts.ts";
import { ChannelClaims } from "../../../src/parts/channels/claims.ts";
import type { ChannelRow } from "../../../src/parts/channels/store/row.ts";
import { NETWORK } from "../../store/store-fixtures.ts";

/** Channels that one round looks at. */
const PAGE = 500;
const state = { balance: "10000000", totalClaimed: "0", refundNonce: "0", withdrawAt: 0 };
const config = JSON.stringify({ receiverAuthorizer: `0x${"a".repeat(40)}` });

function channel(number: number, final: string, more: Partial<ChannelRow> = {}): ChannelRow {
  const channel_id = `0x${number.toString(16).padStart(64, "0")}`;
  const sums = { final, claimed: "0", lost: "0", due_since: 1 + number, claim_soon: 0, status: "open" };
  return { channel_id, asset: "0xa", config, ...sums, ...more } as ChannelRow;
}

/** Makes claims of channels in a list. @returns IDs of the channels that were claimed */
function claimsOf(rows: readonly ChannelRow[]) {
  const claimed: string[] = [];
  const claims = new ChannelClaims({
    network: NETWORK,
    config: {
      claimAt: parseDollars("$5") as UsdPrice,
      minClaim: parseDollars("$1"),
      ...{ claimEverySecs: 1, withdrawDelaySecs: 900 },
    },
    ledger: {
      listDueChannels: async (_network, { isUrgent, after, limit }) =>
        rows
          .filter(({ claim_soon, status }) => !isUrgent || claim_soon === 1 || status !== "open")
          .filter(({ due_since }) => (due_since ?? 0) > (after?.dueSince ?? 0))
          .slice(0, limit),
      askClaims: async () => [],
    },
    facilitator: {
      canSign: () => true,
      async claim(of) {
        claimed.push(...of.map(({ row }) => row.channel_id));
        return { kind: "success", transaction: "0xclaim" } as never;
      },
    },
    tokens: () => [{ asset: "0xa", currency: "USD", decimals: 6 } as AcceptedToken],
    look: async (looked) => looked.map((row) => ({ row, latest: state, confirmed: { ...state, block: 1 } })),
    mayAsk: (id) => !claimed.includes(id),
    onClaimed: () => undefined,
    logger: pino({ level: "silent" }),
  });
  return { claims, claimed };
}

it("Channels that stay below min_claim do not keep newer channels from being claimed", async () => {
  const small = Array.from({ length: PAGE }, (_, i) => channel(i, "10"));
  const large = channel(PAGE, "2000000");
  const { claims, claimed } = claimsOf([...small, large]);
  await claims.makeDue();
  expect(claimed).toEqual([]);
  await claims.makeDue();
  expect(claimed).toEqual([large.channel_id]);
});

it("A channel whose payer withdraws, or that the operator wants to be claimed, is claimed before older ones", async () => {
  const old = Array.from({ length: PAGE }, (_, i) => channel(i, "2000000"));
  const withdrawn = channel(PAGE, "2000000", { status: "withdrawing" });
  const wanted = channel(PAGE + 1, "10", { claim_soon: 1 });
  const { claims, claimed } = claimsOf([...old, withdrawn, wanted]);
  await claims.makeDue();
  expect(claimed).toEqual([withdrawn, wanted, ...old].map(({ channel_id }) => channel_id));
});

it("A channel that is paid back is claimed by its refund, unless the refund takes long", async () => {
  const begun = channel(1, "2000000", { status: "refunding", updated_at: Date.now() });
  const stuck = channel(2, "2000000", { status: "refunding", updated_at: Date.now() - 60_000 });
  const { claims, claimed } = claimsOf([begun, stuck]);
  await claims.makeDue();
  expect(claimed).toEqual([stuck.channel_id]);
});
