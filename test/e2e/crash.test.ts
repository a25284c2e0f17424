import { describe, it } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startCrashSite } from "./crash-rounds.ts";

const site = startBeforeAll(() => startCrashSite("rpc_url"));

describe("Crash: kill -9", { timeout: 120_000 }, () => {
  // The crash matrix has all points, and a gateway that cannot read the chain.
  it("After the settlement it loses no settled payment and runs no unpaid job", () =>
    site.round("after-settle"));

  it("Afterwards the journal balances, and chain, journal and runner agree", () => site.expectAllAccounted());
});
