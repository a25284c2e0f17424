import { test } from "vitest";
import { runCrashRounds } from "./crash-rounds.ts";

test("After kill -9 at 20 random moments everything acknowledged is stored, and nothing is leased that was not claimed", {
  timeout: 1_800_000,
}, async () => {
  await runCrashRounds(20);
});
