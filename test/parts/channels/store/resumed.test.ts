import { expect, test } from "vitest";
import { adopted, RESTORED, resumed, seen } from "../../../../src/parts/channels/store/chain-rules.ts";
import type { ChannelRow } from "../../../../src/parts/channels/store/row.ts";
import { brokenSum, claimedSoon } from "../../../../src/parts/channels/store/rules.ts";

const NOW = 1_900_000_000_000;
const chain = { balance: "100", totalClaimed: "10", refundNonce: "0", withdrawAt: 0, block: 1 };
const row = {
  ...{ status: "stopped", reason: RESTORED, base: "20", kept: "10", signed: "20", charged: "20" },
  ...{ balance: "100", final: "10", claimed: "10", lost: "0", asked: "10", deposits: 0, due_since: null },
  ...{ claim_soon: 0, withdraw_at: null, refund: null, updated_at: 0 },
} as unknown as ChannelRow;

test("A channel that a restore stopped is not opened by what its chain shows", () => {
  const short = seen(row, { ...chain, balance: "50" }, NOW);
  expect(seen(short, chain, NOW)).toMatchObject({ status: "stopped", reason: RESTORED });
  expect(seen(row, { ...chain, totalClaimed: "15" }, NOW)).toMatchObject({ reason: RESTORED, claimed: "15" });
});

test("The operator resumes a channel that its chain does not contradict, and no other", () => {
  expect(resumed(row, chain, NOW)).toMatchObject({ status: "open", reason: null });
  expect(resumed(row, { ...chain, withdrawAt: 5 }, NOW)).toMatchObject({ status: "withdrawing" });
  expect(resumed(row, { ...chain, totalClaimed: "15" }, NOW)).toMatchObject({
    status: "stopped",
    reason: "the chain shows a claim that this store has not made",
  });
  expect(resumed(row, { ...chain, balance: "50" }, NOW)).toMatchObject({
    status: "stopped",
    reason: "the chain has less than the deposits that were counted",
  });
  expect(resumed({ ...row, reason: "another" }, chain, NOW)).toBeUndefined();
  expect(resumed({ ...row, status: "open", reason: null }, chain, NOW)).toBeUndefined();
});

test("A claim that the operator wants is of a channel that has something to claim", () => {
  expect(claimedSoon(row, NOW)).toBeUndefined();
  const due = { ...row, final: "20", due_since: NOW };
  expect(claimedSoon(due, NOW)).toMatchObject({ claim_soon: 1 });
  const asked = { ...due, claim_soon: 1, asked: "20" } as const;
  expect(seen(asked, chain, NOW)).toMatchObject({ claim_soon: 1 });
  expect(seen(asked, { ...chain, totalClaimed: "20" }, NOW)).toMatchObject({ claim_soon: 0 });
});

test("A channel that only its chain knows is adopted with its deposit, unless it was used before", () => {
  const token = { network: "eip155:1", asset: "0xa", symbol: "USDC", decimals: 6 };
  const opened = { channel_id: "0xc", ...token, config: "{}", signed: "10", signature: "0xa1" };
  const untouched = { ...chain, totalClaimed: "0" };
  const channel = adopted(opened, untouched, NOW);
  expect(channel).toMatchObject({ status: "open", balance: "100", base: "0", charged: "0", signed: "10" });
  expect(channel && brokenSum(channel)).toBeUndefined();
  const used = [{ totalClaimed: "10" }, { refundNonce: "1" }, { withdrawAt: 5 }, { balance: "0" }];
  for (const more of used) expect(adopted(opened, { ...untouched, ...more }, NOW)).toBeUndefined();
});
