import { describe, it } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startCrashSite } from "./crash-rounds.ts";

const withRpc = startBeforeAll(() => startCrashSite("rpc_url"));
const withoutRpc = startBeforeAll(() => startCrashSite("no rpc_url", { leavesUndecided: true }));

describe("Crash: kill -9", { timeout: 120_000 }, () => {
  // These end otherwise without `rpc_url`, the second with an undecided payment. The crash matrix has all points.
  it.each(["after-journal", "after-settle"] as const)(
    "%s loses no settled payment and runs no unpaid job",
    async (crash) => {
      await Promise.all([withRpc.round(crash), withoutRpc.round(crash)]);
    },
  );

  it("Afterwards the journal balances, and chain, journal and runner agree", async () => {
    await withRpc.expectAllAccounted();
    await withoutRpc.expectAllAccounted();
  });
});
