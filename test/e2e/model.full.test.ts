import { it } from "vitest";
import { type ModelOptions, runModel } from "./model.ts";

const SET_UPS: readonly Omit<ModelOptions, "durationMs">[] = [
  { setUp: "rpc_url" },
  { setUp: "rpc_url", reorganises: true },
  { setUp: "no rpc_url" },
];

it.each(SET_UPS)(
  "Longer random runs, with %j: no settled payment without its job, no second job, no charge for a refusal",
  (options) => runModel({ ...options, durationMs: 60_000 }),
);
