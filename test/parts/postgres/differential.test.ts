import { expect, test } from "vitest";
import { describeDifference, runSeed, shrink } from "../../store/differential/run.ts";
import { SQLITE } from "../../store/sqlite/compared.ts";
import { MEMORY } from "./memory/compared.ts";

const COMPARED = [SQLITE, MEMORY];

test("The Postgres store does on a server in memory what the SQLite store does", async () => {
  const { difference } = await runSeed(COMPARED, 1, 250);
  expect(difference && describeDifference(await shrink(COMPARED, difference))).toBeUndefined();
});
