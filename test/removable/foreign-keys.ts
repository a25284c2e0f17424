import { existsSync } from "node:fs";
import { join } from "node:path";
import type { PartKeys } from "../../src/config/load-config.ts";
import { fileKey } from "../../src/config/mistakes.ts";
import { partKeys } from "../../src/load-parts.ts";
import type { Part } from "../../src/part.ts";
import { ALL, ROOT } from "./without.ts";

/** Keys of a part, and how a build without the part refuses them. */
interface ForeignKeys {
  readonly toml: string;
  readonly refusals: readonly string[];
}

/** Returns what a part brings to the configuration: tables, keys of entries, transfer methods, charges, and abilities. */
export async function foreignKeys(name: string): Promise<ForeignKeys[]> {
  const { tables, entries, methods, charges, abilities } = await keysOf(name);
  const paths = tables.flatMap((table) => table.paths);
  return [
    ...(paths.length === 0 ? [] : [keysAt(paths, (path) => `[${path}]`, "table")]),
    ...entries.map(({ list, keys }) => {
      if (list === "jobs.price") return PRICE_TABLE;
      const names = list.split(".").map(fileKey);
      const [array, rest] = list.startsWith("x402.") ? [names.slice(0, 2), names.slice(2)] : [names, []];
      const path = array.join(".");
      const entry = Object.keys(keys).map((key) => [...rest, fileKey(key)].join("."));
      // The configuration of the core has a webhook endpoint.
      const index = list === "webhooks.endpoints" ? 1 : 0;
      const { toml, refusals } = keysAt(entry, (key) => `${key} = 1`, "key", `${path}[${index}].`);
      return { toml: `[[${path}]]\n${toml}`, refusals };
    }),
    ...methods.map((method) => ({
      toml: `[[x402.accepted_tokens]]\ntransfer_method = "${method.name}"\n`,
      // Other parts of the build may have methods of their own.
      refusals: [
        `transfer_method: is "${method.name}"; expected "eip3009"`,
        "(the transfer methods of this build)",
      ],
    })),
    ...charges.map((charge) => ({
      toml: `[x402]\n[[jobs]]\njob_index = 0\ncharge = "${charge}"\n`,
      refusals: [`charge: is "${charge}"; expected "before" or "after"`],
    })),
    ...[...abilities, ...tables.flatMap(({ gives }) => gives?.ability ?? [])].map((ability) =>
      needOf(ability),
    ),
  ];
}

/** A table in place of a value of the core. */
const PRICE_TABLE: ForeignKeys = {
  toml: '[[jobs]]\njob_index = 0\nprice = { per = "body:KiB" }\n',
  refusals: [": jobs[0].price: is a table; expected dollars above 0"],
};

const STORE_REFUSAL = "this build has no store for postgres: URLs; expected a store.url of sqlite:PATH";

/** Keys of the core that need an ability of a part. */
const NEEDS: Readonly<Record<string, ForeignKeys>> = {
  failover: {
    toml: '[[x402.facilitators]]\nurl = "https://a.example"\n[[x402.facilitators]]\nurl = "https://b.example"\n',
    refusals: [": x402.facilitators: has 2 entries, and this build has no failover; expected one"],
  },
  "restricted jobs": {
    toml: '[x402]\n[[x402.job_policies]]\ninvocation_mode = "restricted_paid"\n[[jobs]]\njob_index = 0\nmode = "restricted_paid"\n',
    refusals: [
      'x402.job_policies[0].invocation_mode: is "restricted_paid", and this build has no restricted jobs; expected "public_paid" or "disabled"',
      'jobs[0].mode: is "restricted_paid", and this build has no restricted jobs; expected "public_paid" or "disabled"',
    ],
  },
  refunds: {
    toml: '[x402]\n[[jobs]]\njob_index = 0\non_failure = "refund"\n',
    refusals: ['on_failure: is "refund"; expected "keep"'],
  },
  "store for postgres: URLs": {
    toml: '[store]\nurl = "postgres://jobgate:hunter2@127.0.0.1/jobgate"\n',
    refusals: [STORE_REFUSAL],
  },
  "store for postgresql: URLs": {
    toml: '[store]\nurl = "postgresql://127.0.0.1/jobgate"\n',
    refusals: [STORE_REFUSAL.replaceAll("postgres:", "postgresql:")],
  },
  "pricing engine": {
    toml: '[x402]\nprice_source = "engine"\n[[jobs]]\njob_index = 0\nprice = "engine"\n',
    refusals: [
      'price_source: is "engine", and this build has no pricing engine; expected "map"',
      'price: is "engine", and this build has no pricing engine; expected dollars',
    ],
  },
};

function needOf(ability: string): ForeignKeys {
  const keys = NEEDS[ability];
  if (keys === undefined) throw new Error(`no key here needs ${ability}; expected one in NEEDS`);
  return keys;
}

function keysAt(
  paths: readonly string[],
  line: (path: string) => string,
  what: "table" | "key",
  entry = "",
): ForeignKeys {
  return {
    toml: `${paths.map(line).join("\n")}\n`,
    refusals: paths.map((path) => {
      // A key that resembles another one is told that one.
      const absent = what === "table" ? `: this build has no table ${path};` : "";
      return `: ${entry}${path}: is not a known key${absent}`;
    }),
  };
}

async function keysOf(name: string): Promise<PartKeys> {
  if (name === ALL) return partKeys();
  const face = join(ROOT, "src/parts", name, "part.ts");
  return partKeys(existsSync(face) ? [((await import(face)) as { part: Part }).part] : []);
}
