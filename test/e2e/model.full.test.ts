import { it } from "vitest";
import { atOnce } from "../helpers/at-once.ts";
import { howMany } from "../helpers/how-many.ts";
import { type ModelOptions, runModel } from "./model.ts";

const SET_UPS: readonly Omit<ModelOptions, "durationMs">[] = [
  { setUp: "rpc_url" },
  { setUp: "rpc_url", reorganises: true },
  { setUp: "no rpc_url" },
];

it("Random runs, in each set-up: no settled payment without its job, no second job, no charge for a refusal", () =>
  atOnce(SET_UPS, (options) => runModel({ ...options, durationMs: howMany(20_000, 60_000) })));
