import { it } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startSolanaParts } from "../parts/solana/harness.ts";
import { expectRefundedOnceThrough } from "./refunds-solana.ts";

const parts = startBeforeAll(startSolanaParts);

it("A refund on Solana that was journalled and not broadcast before a kill is sent once after it", () =>
  expectRefundedOnceThrough(parts, "transactions/after-journal"));
