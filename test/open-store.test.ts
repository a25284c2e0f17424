import { pino } from "pino";
import { expect, test } from "vitest";
import { inspectStore, openStore } from "../src/open-store.ts";

const REFUSAL = "this build has no store for other: URLs; expected a store.url of sqlite:PATH";

test("A store whose scheme no part of the build opens is refused", async () => {
  const store = { url: "other://127.0.0.1/jobgate", maxPending: 1 };
  await expect(openStore(store, pino({ level: "silent" }))).rejects.toThrow(REFUSAL);
});

test("A store whose scheme no part of the build opens cannot be inspected", async () => {
  await expect(inspectStore({ url: "other://127.0.0.1/jobgate" })).rejects.toThrow(REFUSAL);
});
