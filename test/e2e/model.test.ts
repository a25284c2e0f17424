import { it } from "vitest";
import { runModel } from "./model.ts";

it("Random payments, faults, crashes and chain events: no settled payment without its job, no second job, no charge for a refusal", {
  timeout: 200_000,
}, async () => {
  await runModel({ setUp: "rpc_url", durationMs: 2_500 });
});
