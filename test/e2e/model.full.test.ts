import { it } from "vitest";
import { runModel } from "./model.ts";
import { SET_UPS } from "./paid-gateway.ts";

it.each(SET_UPS)(
  "Longer random runs, with %s: no settled payment without its job, no second job, no charge for a refusal",
  (setUp) => runModel({ setUp, durationMs: 60_000 }),
);
