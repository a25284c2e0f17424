import { expect, it } from "vitest";
import { runModel } from "./model.ts";

it("Random payments, faults, crashes and chain events: no settled payment without its job, no second job, no charge for a refusal", {
  timeout: 60_000,
}, async () => {
  expect(await runModel({ setUp: "rpc_url", durationMs: 4_000 })).toBeGreaterThan(0);
});
