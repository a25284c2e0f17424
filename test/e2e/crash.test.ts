import { afterAll, beforeAll, describe, it } from "vitest";
import { CRASHES, type Crash, type CrashSite, startCrashSite } from "./crash-rounds.ts";

/**
 * Crashes that end otherwise without `rpc_url`. The last one leaves its payment undecided, and so does "during settle",
 * which the crash matrix runs on sites of their own.
 */
const WITHOUT_RPC: readonly Crash[] = ["after-journal", "after-settle"];

let withRpc: CrashSite;
let withoutRpc: CrashSite;

beforeAll(async () => {
  [withRpc, withoutRpc] = await Promise.all([
    startCrashSite("rpc_url"),
    startCrashSite("no rpc_url", { leavesUndecided: true }),
  ]);
});
afterAll(() => Promise.all([withRpc?.stop(), withoutRpc?.stop()]));

describe("Crash: kill -9", { timeout: 60_000 }, () => {
  it.each(CRASHES)("%s loses no settled payment and runs no unpaid job", async (crash) => {
    await Promise.all([withRpc.round(crash), WITHOUT_RPC.includes(crash) && withoutRpc.round(crash)]);
  });

  it("Afterwards the journal balances, and chain, journal and runner agree", async () => {
    await withRpc.expectAllAccounted();
    await withoutRpc.expectAllAccounted();
  });
});
