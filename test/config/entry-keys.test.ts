import { expect, test } from "vitest";
import * as z from "zod";
import type { EntryKeys, LiveRateSource } from "../../src/config/entry-keys.ts";
import { loadConfigWith } from "../../src/config/load-config.ts";
import { integer } from "../../src/config/value-types.ts";
import { TOKEN, X402 } from "./config-folder.ts";
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
const UNRATED = without(TOKEN, "rate_per_native_unit");

async function load(tokens: string, entries: readonly EntryKeys[] = [bees], x402 = "") {
  const toml = `service_id = 1\n${X402}${x402}${tokens}`;
  const parts = { tables: [], entries, methods: [] };
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
    "x402.accepted_tokens[0].bees is not a known key: this build has no table bees; expected one of ",
  );
});
