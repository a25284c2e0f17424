import { isDeepStrictEqual } from "node:util";
import { defined } from "../core/objects.ts";
import type { Config, FacilitatorConfig, Job, RunnerConfig, X402Config } from "./config.ts";
import { isTable } from "./config-files.ts";
import { fileKey } from "./mistakes.ts";
import type { PartTable, PartTables } from "./part-tables.ts";
import type { Shown, ShownTable } from "./shown.ts";

/**
 * Returns the configuration in effect after a reload. Sockets, the store and settings that runners rely on cannot change
 * while jobgate runs: a reload changes every other key of the two gateways, and the secrets of the other tables,
 * user and password of the store's URL too. Each part says what a reload changes of its table. A reload neither adds nor removes a
 * listener.
 */
export function afterReload(running: Config, next: Config): Config {
  const inEffect = valuesAfterReload(running, next);
  const shown = ignoredChanges(inEffect, next).reduce(
    (table, key) => withShown(table, running.shown, key.split(".")),
    next.shown,
  );
  return { ...inEffect, shown };
}

/** Returns what is shown of the next configuration with what is shown in use of one key, in each entry of a list too. */
function withShown(
  next: ShownTable,
  inUse: Shown | undefined,
  [key = "", ...rest]: readonly string[],
): ShownTable {
  const { [key]: value, ...others } = next;
  const used = isTable(inUse) ? (inUse as ShownTable)[key] : undefined;
  if (rest.length === 0) return used === undefined ? others : { ...others, [key]: used };
  const within = (item: Shown) => (isTable(item) ? withShown(item as ShownTable, used, rest) : item);
  if (value === undefined) return next;
  return { ...next, [key]: Array.isArray(value) ? value.map(within) : within(value) };
}

function valuesAfterReload(running: Config, next: Config): Config {
  const { store, runner, operator, x402, webhooks } = running;
  const parts = partsAfterReload(running.parts, next.parts);
  const tls = hasSameKeys(runner.tls, next.runner.tls) ? next.runner.tls : runner.tls;
  return defined({
    ...running,
    store: isSamePlace(store.url, next.store.url) ? { ...store, url: next.store.url } : store,
    parts,
    runner: defined({ ...runner, tokens: next.runner.tokens, tls }),
    operator: { ...operator, tokens: next.operator.tokens },
    x402: x402 && next.x402 ? { ...x402AfterReload(x402, next.x402), parts } : x402,
    webhooks: webhooks && next.webhooks ? { ...next.webhooks, bindAddress: webhooks.bindAddress } : webhooks,
  });
}

function partsAfterReload(running: PartTables, next: PartTables): PartTables {
  const inUse = ([table, own]: readonly [PartTable, unknown]) =>
    [table, next.has(table) ? table.afterReload(own, next.get(table)) : own] as const;
  return new Map([...running].map(inUse));
}

function x402AfterReload(running: X402Config, next: X402Config): X402Config {
  const { bindAddress, facilitatorTimeoutMs, priceSource, paysBack } = running;
  const { paysBack: _, ...reloaded } = next;
  const isSameList = isDeepStrictEqual(
    running.facilitators.map(withoutSecrets),
    next.facilitators.map(withoutSecrets),
  );
  return {
    ...reloaded,
    bindAddress,
    facilitatorTimeoutMs,
    priceSource,
    facilitators: isSameList ? next.facilitators : running.facilitators,
    ...(paysBack ? { paysBack } : next.jobs && { jobs: next.jobs.map(withoutPromise) }),
    // The prices of a file are checked for its own price source only.
    jobPricing: next.priceSource === priceSource ? next.jobPricing : running.jobPricing,
  };
}

/** Leaves out the promise of a refund: it is made only from the restart on that has an account to send it from. */
function withoutPromise({ onFailure: _, ...job }: Job): Job {
  return job;
}

/** Leaves out how jobgate proves to a remote facilitator who asks. */
function withoutSecrets(facilitator: FacilitatorConfig): object {
  if (facilitator.kind === "local") return facilitator;
  const { headers: _headers, cdp: _cdp, ...rest } = facilitator;
  return { ...rest, url: withoutCredentials(rest.url) };
}

function withoutCredentials(text: string): string {
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url.href;
}

/** Checks whether two URLs of a Postgres store differ only in user and password. */
function isSamePlace(running: string, next: string): boolean {
  const arePostgres = [running, next].every((url) => url.startsWith("postgres"));
  return arePostgres && withoutCredentials(running) === withoutCredentials(next);
}

/** Checks whether the listener still speaks TLS, with or without client certificates. */
function hasSameKeys(running: RunnerConfig["tls"], next: RunnerConfig["tls"]): boolean {
  return isDeepStrictEqual(Object.keys(running ?? {}).sort(), Object.keys(next ?? {}).sort());
}

/** Tables of which a reload changes a part. */
const SPLIT_TABLES: ReadonlySet<string> = new Set(["runner", "operator", "x402", "webhooks"]);

/** Keys of `[x402]` that the file has outside of it. */
const TOP_LEVEL: Readonly<Record<string, string>> = {
  jobPricing: "job_pricing",
  jobs: "jobs.on_failure",
  paysBack: "x402.refunds",
};

/** Returns the changed tables and keys that a reload ignores, as the file spells them. */
export function changesThatNeedRestart(running: Config, next: Config): string[] {
  return ignoredChanges(valuesAfterReload(running, next), next);
}

function ignoredChanges(inEffect: Config, next: Config): string[] {
  const changes = differences(inEffect, next).flatMap((name) => {
    if (name === "shown") return [];
    if (name === "parts") return partsThatNeedRestart(inEffect.parts, next.parts);
    const [used, wanted] = [inEffect, next].map((config) => config[name as keyof Config] as object);
    if (!SPLIT_TABLES.has(name) || used === undefined || wanted === undefined) return fileKey(name);
    const changed = differences(used, wanted).filter((key) => key !== "parts");
    return changed.map((key) => TOP_LEVEL[key] ?? `${fileKey(name)}.${fileKey(key)}`);
  });
  return [...new Set(changes)];
}

function partsThatNeedRestart(used: PartTables, wanted: PartTables): string[] {
  return [...wanted].flatMap(([table, own]) => (isDeepStrictEqual(used.get(table), own) ? [] : table.paths));
}

function differences(used: object, wanted: object): string[] {
  const values = [used, wanted] as readonly Readonly<Record<string, unknown>>[];
  const keys = new Set(values.flatMap((table) => Object.keys(table)));
  return [...keys].filter((key) => !isDeepStrictEqual(values[0]?.[key], values[1]?.[key]));
}
