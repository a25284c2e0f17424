import { expect, test } from "vitest";
import * as z from "zod";
import { afterReload, changesThatNeedRestart } from "../../src/config/checked-file.ts";
import { ConfigTable } from "../../src/config/config-table.ts";
import { loadConfigWith } from "../../src/config/load-config.ts";
import { fixed } from "../../src/config/reload.ts";
import { integer } from "../../src/config/value-types.ts";
import { NO_PARTS } from "./config-folder.ts";

const bees = ConfigTable.of({
  keys: { bees: z.object({ count: fixed(integer(0, 9)) }).optional() },
  check({ bees: table }, { place, tables }) {
    if (table?.count === 8) place.at("bees", "count").report(`is beside ${tables.store?.url}; expected less`);
    return "read";
  },
  complete: ({ bees: table }, read) => ({ count: table?.count ?? 0, read }),
});
const bound = ConfigTable.of({
  in: ["store"],
  keys: { boundMs: integer(1, 9).default(5) },
  complete: ({ boundMs }) => boundMs,
});
const inX402 = ConfigTable.of({
  in: ["x402"],
  keys: { honey: integer(1, 9).default(1) },
  complete: ({ honey }) => honey,
});

async function load(toml: string, tables: readonly ConfigTable[] = [bees, bound, inX402]) {
  const result = await loadConfigWith({ ...NO_PARTS, tables }, { path: "jobgate.toml", toml, env: {} });
  if (result.ok) return result.config;
  throw new Error(result.mistakes.map(({ keyPath, message }) => `${keyPath} ${message}`).join("\n"));
}

test("A part finds its own table in a configuration, and the core does not have it", async () => {
  const config = await load("[bees]\ncount = 7\n[store]\nbound_secs = 3\n");
  expect(bees.in(config)).toEqual({ count: 7, read: "read" });
  expect(bound.in(config)).toBe(3);
  expect(JSON.stringify({ ...config, serviceId: 0, shown: {}, file: {} })).not.toMatch(/bees|bound/);
});

test("Keys have their defaults, unless the file has no table for them", async () => {
  const config = await load("");
  expect(bees.in(config)).toEqual({ count: 0, read: "read" });
  expect(bound.in(config)).toBe(5);
  expect(inX402.in(config)).toBeUndefined();
});

test("A part reports its mistakes together with the mistakes of the core", async () => {
  await expect(load("[bees]\ncount = 8\n[store]\nmax_pending = 0\n")).rejects.toThrow(
    /^bees\.count is beside sqlite:jobgate\.db; expected less\nstore\.max_pending is 0/,
  );
});

test("Without its part a table is refused", async () => {
  await expect(load("[bees]\ncount = 8\n", [bound])).rejects.toThrow(
    /^bees is not a known key: this build has no table bees; expected one of /,
  );
});

test("Keys of a part in an array, in no table, or in place of a key, are refused by the table's name", async () => {
  const keysIn = (parent: readonly string[], key = "honey") =>
    load("", [
      inX402,
      ConfigTable.of({ in: parent, keys: { [key]: integer(1, 9) }, complete: () => undefined }),
    ]);
  await expect(keysIn(["x402", "acceptedTokens"])).rejects.toThrow(
    "a part has x402.accepted_tokens.honey in what is not a table; expected EntryKeys for an array",
  );
  await expect(keysIn(["hive"])).rejects.toThrow("a part has hive.honey in what is not a table");
  await expect(keysIn(["x402"])).rejects.toThrow("a part has x402.honey, which is a key already");
  await expect(keysIn(["store"], "url")).rejects.toThrow("a part has store.url, which is a key already");
});

test("A reload changes the keys of a part, except where a mark says that a change needs a restart", async () => {
  const running = await load("[bees]\ncount = 1\n[store]\nbound_secs = 1\n");
  const next = await load("[bees]\ncount = 2\n[store]\nbound_secs = 2\n");
  const config = afterReload(running, next);
  expect([bees.in(config)?.count, bound.in(config)]).toEqual([1, 2]);
  expect(changesThatNeedRestart(running, next)).toEqual(["bees.count"]);
});
