import { it } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startSolanaParts } from "../parts/solana/harness.ts";
import { REFUND_POINTS } from "./refund-account.ts";
import { expectRefundedOnceThrough } from "./refunds-solana.ts";

const parts = startBeforeAll(startSolanaParts);

it.each(REFUND_POINTS)("A buyer on Solana is paid back once, although the process is killed at %s", (point) =>
  expectRefundedOnceThrough(parts, point),
);
