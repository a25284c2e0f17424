import { describe, it } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startCrashSite } from "./crash-rounds.ts";

const withRpc = startBeforeAll(() => startCrashSite("rpc_url"));
const withoutRpc = startBeforeAll(() => startCrashSite("no rpc_url", { leavesUndecided: true }));

describe("Crash: kill -9", { timeout: 120_000 }, () => {
  // It ends otherwise without `rpc_url`: with an undecided payment. The crash matrix has all points, in both set-ups.
  it("after-settle loses no settled payment and runs no unpaid job", async () => {
    await Promise.all([withRpc.round("after-settle"), withoutRpc.round("after-settle")]);
  });

  it("Afterwards the journal balances, and chain, journal and runner agree", async () => {
    await withRpc.expectAllAccounted();
    await withoutRpc.expectAllAccounted();
  });
});
