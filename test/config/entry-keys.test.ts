import { expect, test } from "vitest";
import * as z from "zod";
import type { EntryKeys, LiveRateSource } from "../../src/config/entry-keys.ts";
import { loadConfigWith } from "../../src/config/load-config.ts";
import { integer } from "../../src/config/value-types.ts";
import { NO_PARTS, TOKEN, X402 } from "./config-folder.ts";
import { without } from "./mistake-cases.ts";

interface BeeRate extends LiveRateSource {
  readonly count: number | undefined;
}

/** A part whose tokens are rated by bees. */
const bees: EntryKeys<"x402.acceptedTokens"> = {
  list: "x402.acceptedTokens",
  keys: { bees: z.object({ count: integer(0, 9), hives: integer(1, 9).optional() }).optional() },
  alternative: "bees",
  claim({ bees: table }: { readonly bees?: { readonly count?: number; readonly hives?: number } }, place) {
    if (table === undefined && !place.at("bees").isReported) return undefined;
    return {
      keys: { bees: { hives: 1, ...table } },
      check() {
        if (table?.count === 8) place.at("bees", "count").report("is 8; expected less");
      },
      complete: (): BeeRate => ({ kind: "bees", count: table?.count }),
    };
  },
};
/** A part whose facilitators are bees. */
const facilitators: EntryKeys<"x402.facilitators"> = {
  list: "x402.facilitators",
  keys: { hive: integer(1, 9).optional() },
  alternative: "hive",
  claim({ hive }: { readonly hive?: number }) {
    if (hive === undefined) return undefined;
    return {
      keys: { hive },
      name: `hive ${hive}`,
      networks: ["eip155:84532"],
      accounts: new Set<string>(),
      check() {},
      complete: () => ({ kind: "in_process", name: `hive ${hive}`, chains: [] }),
    };
  },
};
const UNRATED = without(TOKEN, "rate_per_native_unit");

async function load(tokens: string, entries: readonly EntryKeys[] = [bees], x402 = "", head = X402) {
  const toml = `service_id = 1\n${head}${x402}${tokens}`;
  const parts = { ...NO_PARTS, entries, abilities: new Set(["failover"]) };
  const result = await loadConfigWith(parts, { path: "jobgate.toml", toml, env: {} });
  if (result.ok) return result.config;
  throw new Error(result.mistakes.map(({ keyPath, message }) => `${keyPath} ${message}`).join("\n"));
}

test("A part makes the rate of the tokens that have its keys, and of no others", async () => {
  const other = TOKEN.replace(/0x036C\w+/, `0x${"ab".repeat(20)}`);
  const { x402, shown } = await load(`${UNRATED}bees.count = 7\n${other}`);
  expect(x402?.acceptedTokens.map(({ rate }) => rate)).toEqual([
    { kind: "bees", count: 7 },
    { kind: "fixed", ratePerNativeUnit: "3200.00" },
  ]);
  expect(x402?.acceptedTokens[0]).not.toHaveProperty("bees");
  expect(shown.x402).toHaveProperty("accepted_tokens[0].bees", { count: 7, hives: 1 });
  expect(shown.x402).not.toHaveProperty("accepted_tokens[1].bees");
});

test("A rate of the table is not for tokens that a part claims", async () => {
  const config = await load(`${UNRATED}bees.count = 7\n`, [bees], 'rate_per_native_unit = "1"\n');
  expect(config.x402?.acceptedTokens[0]?.rate).toEqual({ kind: "bees", count: 7 });
  expect(config.shown.x402).not.toHaveProperty("accepted_tokens[0].rate_per_native_unit");
});

test("A mistake in keys of a part is the only one, and mistakes of the core name the alternative", async () => {
  await expect(load(`${UNRATED}bees.count = 8\n`)).rejects.toThrow(
    /^x402\.accepted_tokens\[0\]\.bees\.count is 8; expected less$/,
  );
  await expect(load(`${UNRATED}bees = 1\n`)).rejects.toThrow(
    /^x402\.accepted_tokens\[0\]\.bees is an integer; expected a table$/,
  );
  await expect(load(UNRATED)).rejects.toThrow(
    "is missing; expected a rate here or as x402.rate_per_native_unit, or bees",
  );
});

test("Without its part a key is refused", async () => {
  await expect(load(`${UNRATED}bees.count = 8\n`, [])).rejects.toThrow(
    "x402.accepted_tokens[0].bees is not a known key: this build has no table x402.accepted_tokens.bees; expected one of ",
  );
});

test("A part makes facilitators of the entries that have its keys, which need no URL", async () => {
  const lists = (entries: string) =>
    load(`${entries}${TOKEN}`, [facilitators], "", '[x402]\npublic_url = "https://b.example"\n');
  const hive = (id: number) => `[[x402.facilitators]]\nhive = ${id}\n`;
  const remote = '[[x402.facilitators]]\nurl = "https://a.example"\nnetworks = ["base"]\n';
  const { x402, shown } = await lists(`${remote}${hive(1)}`);
  expect(x402?.facilitators).toEqual([
    { kind: "remote", name: "a.example", url: "https://a.example", networks: ["eip155:8453"] },
    { kind: "in_process", name: "hive 1", chains: [] },
  ]);
  expect(shown.x402).toHaveProperty("facilitators[1].hive", 1);
  await expect(lists(`${hive(1)}${hive(1)}`)).rejects.toThrow(
    "x402.facilitators[1] is the same facilitator as x402.facilitators[0]; expected each once",
  );
  await expect(lists(remote)).rejects.toThrow("which none of x402.facilitators settles on");
  await expect(lists("[[x402.facilitators]]\n")).rejects.toThrow("url is missing; expected it, or hive");
});

/** A part that has terms for the jobs with its key. */
const termsOf = (key: string, job: object): EntryKeys<"jobs"> => ({
  list: "jobs",
  keys: { [key]: integer(1, 9).optional() },
  alternative: key,
  claim: (entry) => (key in entry ? { keys: {}, check: () => {}, complete: () => job } : undefined),
});

test("Several parts have terms for a job, and one of them does it", async () => {
  const runner = { kind: "bees" };
  const entries = [
    termsOf("hive", { terms: ["hive"] }),
    termsOf("queen", { runner, terms: ["queen", "crown"] }),
  ];
  const { x402 } = await load(
    `${TOKEN}[[jobs]]\njob_index = 0\nhive = 1\nqueen = 2\n[[jobs]]\njob_index = 1\n`,
    entries,
  );
  const [both, none] = x402?.jobs ?? [];
  expect(both).toMatchObject({ runner, terms: ["hive", "queen", "crown"] });
  expect(none).not.toHaveProperty("terms");
});
