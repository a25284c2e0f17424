import { dirname } from "node:path";
import type * as z from "zod";
import type { NetworkKind } from "../core/addresses.ts";
import { EIP3009 } from "../core/payment.ts";
import type { OwnPaths } from "../core/route.ts";
import { Abilities, type BuildAbilities, checkAbilities, promisesOf } from "./abilities.ts";
import { checkShape } from "./check-shape.ts";
import { CheckedFile } from "./checked-file.ts";
import { type Config, type OperatorConfig, type StorePlace, toOperator, withoutAliases } from "./config.ts";
import { readConfigFiles } from "./config-files.ts";
import { type ConfigTable, completeParts, withKeys, withTables } from "./config-table.ts";
import { EntryClaims, type EntryKeys } from "./entry-keys.ts";
import { facilitatorNetworks } from "./facilitators.ts";
import { fillTokens } from "./fill-tokens.ts";
import { charge, onFailure } from "./jobs.ts";
import { fileKey, type KeyPath, type Mistake, MistakeList } from "./mistakes.ts";
import { checkJobBodies } from "./rules/job-bodies.ts";
import { checkJobParameters } from "./rules/job-parameters.ts";
import { checkJobs } from "./rules/jobs.ts";
import { checkListeners } from "./rules/listeners.ts";
import { checkPrices } from "./rules/prices.ts";
import { checkRoutes, fillJobs } from "./rules/routes.ts";
import { checkTls } from "./rules/tls.ts";
import { checkWebhooks } from "./rules/webhooks.ts";
import { checkX402 } from "./rules/x402.ts";
import {
  type CompleteTables,
  type ConfigSchema,
  type ConfigTables,
  configSchema,
  operatorSchema,
  storePlaceSchema,
} from "./schema.ts";
import { pick } from "./tables-at.ts";
import type { TokenMethod } from "./token-method.ts";
import { anyAddress, anyNetwork, oneOf } from "./value-types.ts";
import type { TokenTable } from "./x402.ts";

export type LoadConfigResult =
  | {
      readonly ok: true;
      readonly config: Config;
      /** Settings that are valid, but probably have another effect than the operator intends. */
      readonly warnings: readonly Mistake[];
      /** Makes a mistake with the file and line of a key, for problems that only show in use. */
      readonly mistakeAt: (path: KeyPath, message: string) => Mistake;
    }
  /** Every mistake, in the order of the files and lines. */
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** Source of a configuration. */
export interface ConfigSource {
  /** Path of the TOML file. */
  readonly path: string;
  /** Contents, if there is no file. `path` then names them in mistakes, and relative paths in them start from its folder. */
  readonly toml?: string;
  /** Environment that `env:NAME` values are read from. */
  readonly env: NodeJS.ProcessEnv;
  /** u64 from the command line; takes precedence over `service_id` in the file. */
  readonly serviceId?: bigint | undefined;
}

/** Tables, keys, lists and transfer methods that the parts of a build add to the configuration. */
export interface PartKeys extends BuildAbilities {
  readonly tables: readonly ConfigTable[];
  readonly entries: readonly EntryKeys[];
  readonly methods: readonly TokenMethod[];
  /** Values of `charge` that parts add. */
  readonly charges: readonly string[];
  readonly paths: readonly OwnPaths[];
}

const schemas = new WeakMap<PartKeys, ConfigSchema>();

/** Returns the schema of a build. The schema is made once, because adding a key clones every table around the key. */
function schemaOf(parts: PartKeys): ConfigSchema {
  const schema = schemas.get(parts) ?? schemaWith(parts);
  schemas.set(parts, schema);
  return schema;
}

/** Adds the keys of parts, and the names of their transfer methods, charges and promises, to the schema of the core. */
export function schemaWith({ tables, entries, methods, charges }: PartKeys): ConfigSchema {
  const names = [EIP3009, ...methods].map(({ name }) => name) as [string, ...string[]];
  const transferMethod = oneOf(names, "the transfer methods of this build").optional();
  const schema = entries.reduce<z.ZodType>(
    (whole, { list, keys }) => withKeys(whole, list.split("."), keys),
    withTables(configSchema, tables),
  );
  const ofJobs = { onFailure: onFailure(promisesOf({ tables })), charge: charge(charges) };
  const withJobs = withKeys(schema, ["jobs"], ofJobs);
  const ofMethods = Object.assign({ transferMethod }, ...methods.map(({ keys }) => keys?.shape));
  const withMethods = withKeys(withJobs, ["x402", "acceptedTokens"], ofMethods);
  const kinds = networkKinds(methods);
  return (
    kinds.length === 0 ? withMethods : withNetworks(withMethods, kinds, { tables, entries })
  ) as ConfigSchema;
}

function networkKinds(methods: readonly TokenMethod[]): readonly NetworkKind[] {
  return methods.flatMap(({ networks }) => networks ?? []);
}

/**
 * Returns a schema that also accepts networks and addresses of these kinds: in tokens, in facilitators, and in tables
 * and entries of parts.
 */
function withNetworks(
  schema: z.ZodType,
  kinds: readonly NetworkKind[],
  { tables, entries }: Pick<PartKeys, "tables" | "entries">,
): z.ZodType {
  const [network, address] = [anyNetwork(kinds), anyAddress(kinds)];
  const ofTokens = { network, asset: address.optional(), payTo: address };
  const ofFacilitators = { networks: facilitatorNetworks(network) };
  const withTokens = withKeys(schema, ["x402", "acceptedTokens"], ofTokens);
  const withAccounts = tables
    .flatMap(({ accounts }) => accounts ?? [])
    .reduce(
      (whole, { path, keys }) => withKeys(whole, path, keys(address, network)),
      withKeys(withTokens, ["x402", "facilitators"], ofFacilitators),
    );
  return entries.reduce(
    (whole, { list, keysWith }) =>
      keysWith === undefined ? whole : withKeys(whole, list.split("."), keysWith(network)),
    withAccounts,
  );
}

/**
 * Reads and checks the whole configuration. Never rejects for anything that the operator can correct.
 * @param parts tables and keys of the parts of this build
 */
export async function loadConfigWith(parts: PartKeys, options: ConfigSource): Promise<LoadConfigResult> {
  const { serviceId } = options;
  const mistakes = new MistakeList();
  const raw = await readConfigFiles(options, mistakes);
  const schema = schemaOf(parts);
  const checked = await checkShape(schema, raw, mistakes, dirname(options.path));
  const claims = EntryClaims.in(checked ?? {}, parts.entries, mistakes);
  const shaped = checked && {
    ...checked,
    ...(serviceId !== undefined && { serviceId }),
    abilities: new Abilities(parts, checked),
    claims,
    methods: [EIP3009, ...parts.methods],
    charges: parts.charges,
    chargesPart: (token: TokenTable) =>
      parts.tables.some((table) => table.isGivenIn(checked) && table.chargesPart(token)),
    paths: parts.paths,
    listeners: parts.tables.flatMap((table) => {
      const keys = table.keysIn(checked);
      return (keys && table.listener(keys)) ?? [];
    }),
  };
  const tables = shaped && fillJobs(fillTokens(shaped, mistakes), mistakes);
  const kinds = networkKinds(parts.methods);
  await claims.check({ networkKinds: kinds });
  if (tables === undefined) return { ok: false, mistakes: mistakes.mistakes() };
  const ofParts = parts.tables.flatMap((table) => {
    const keys = table.keysIn(tables);
    return keys === undefined ? [] : { table, keys };
  });
  checkTls(tables, mistakes);
  await checkJobBodies(tables, mistakes);
  await checkJobParameters(tables, mistakes);
  checkAbilities(schema, tables, mistakes);
  checkListeners(tables, mistakes);
  checkX402(tables, mistakes);
  checkJobs(tables, mistakes);
  checkRoutes(tables, mistakes);
  checkPrices(tables, mistakes);
  checkWebhooks(tables, mistakes);
  warnOfMissingServiceId(tables, mistakes);
  const read = await Promise.all(
    ofParts.map(
      async ({ table, keys }) =>
        [table, await table.check(keys, { tables, mistakes, networkKinds: kinds })] as const,
    ),
  );
  const found = mistakes.mistakes();
  if (found.length > 0) return { ok: false, mistakes: found };
  return {
    ok: true,
    config: new CheckedFile({
      schema,
      // Nothing was reported, so nothing was left out.
      tables: withoutAliases(pick(tables, schema.shape) as CompleteTables),
      ofParts: parts.tables,
      abilities: tables.abilities,
      claims,
      read: new Map(read),
      places: mistakes,
    }).complete(),
    warnings: mistakes.warnings(),
    mistakeAt: (path, message) => mistakes.locate({ path: pathInFile(path, tables), message }),
  };
}

type LoadPartResult<Part> =
  | (Part & { readonly ok: true })
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

interface ConfigFile {
  readonly path: string;
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Reads the address of the operator's API, for its clients. Needs no secrets of the gateway, and ignores mistakes in the
 * rest of the file.
 * @param readsToken false leaves the token out
 */
export async function loadOperator(
  file: ConfigFile,
  readsToken: boolean,
): Promise<LoadPartResult<{ readonly operator: OperatorConfig }>> {
  const only = { operator: readsToken ? ["bind_address", "token"] : ["bind_address"] };
  const { checked, mistakes } = await readPart(operatorSchema, { ...file, only });
  if (checked === undefined) return { ok: false, mistakes };
  return { ok: true, operator: toOperator(checked.operator as Parameters<typeof toOperator>[0]) };
}

/**
 * Reads the place of the store, as {@link loadOperator} reads the address of the operator's API.
 * @param ofParts tables of the parts that open stores
 */
export async function loadStorePlaceWith(
  ofParts: readonly ConfigTable[],
  file: ConfigFile,
): Promise<LoadPartResult<{ readonly store: StorePlace }>> {
  const keys = ["url", ...ofParts.flatMap((table) => Object.keys(table.keys).map(fileKey))];
  const schema = withTables(storePlaceSchema, ofParts);
  const { checked, mistakes } = await readPart(schema, { ...file, only: { store: keys } });
  const { url } = checked?.store ?? {};
  if (url === undefined) return { ok: false, mistakes };
  return { ok: true, store: { url, parts: completeParts(ofParts, checked ?? {}) } };
}

/** Reads some keys of a file. `checked` is undefined if one of the keys has a mistake. */
async function readPart<S extends z.ZodType>(schema: S, file: Parameters<typeof readConfigFiles>[0]) {
  const list = new MistakeList();
  const checked = await checkShape(schema, await readConfigFiles(file, list), list, dirname(file.path));
  const mistakes = list.mistakes();
  return { checked: mistakes.length === 0 ? checked : undefined, mistakes };
}

/**
 * Returns the path of a key as the file spells it. A file can have `facilitator_url` in place of a list with one entry.
 */
function pathInFile(path: KeyPath, { x402 }: ConfigTables): KeyPath {
  const isFacilitator = path[0] === "x402" && path[1] === "facilitators";
  return isFacilitator && x402?.facilitatorUrl !== undefined ? ["x402", "facilitator_url"] : path;
}

function warnOfMissingServiceId({ serviceId, x402, webhooks }: ConfigTables, mistakes: MistakeList): void {
  if (webhooks === undefined || (serviceId ?? x402?.serviceId) !== undefined) return;
  mistakes.at("service_id").warn("is missing, so webhook JobCalls carry service id 0");
}
