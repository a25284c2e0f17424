import { expect, test } from "vitest";
import { describeDifference, runSeed, shrink } from "../differential/run.ts";
import { SQLITE, SQLITE_IN_ORDER } from "./compared.ts";

const COMPARED = [SQLITE_IN_ORDER, SQLITE];

test("Operations that are requested at once have the outcomes that they have one after the other", async () => {
  const { difference } = await runSeed(COMPARED, 1, 500);
  expect(difference && describeDifference(await shrink(COMPARED, difference))).toBeUndefined();
});
