import { afterAll, beforeAll, describe, it } from "vitest";
import { CRASHES, type CrashSite, endsAlike, startCrashSite } from "./crash-rounds.ts";

let withRpc: CrashSite;
let withoutRpc: CrashSite;

beforeAll(async () => {
  [withRpc, withoutRpc] = await Promise.all([startCrashSite("rpc_url"), startCrashSite("no rpc_url")]);
});
afterAll(() => Promise.all([withRpc?.stop(), withoutRpc?.stop()]));

describe("Crash: kill -9", { timeout: 60_000 }, () => {
  it.each(CRASHES)("%s loses no settled payment and runs no unpaid job", async (crash) => {
    await Promise.all([withRpc.round(crash), endsAlike(crash) ? undefined : withoutRpc.round(crash)]);
  });

  it("Afterwards the journal balances, and chain, journal and runner agree", async () => {
    await withRpc.expectAllAccounted();
    await withoutRpc.expectAllAccounted();
  });
});
