import type { Logger } from "pino";
import type { Config, PeerFindings } from "./config/config.ts";
import type { ConfigTable } from "./config/config-table.ts";
import type { PartKeys } from "./config/load-config.ts";
import { SQLITE_URL, storeAbility } from "./config/store-url.ts";
import type { OfferedTelemetry, Part, PayingPart, StoreKind } from "./part.ts";
import * as faces from "./parts.ts";
import type { StoreInspection } from "./store/contract/inspection.ts";
import type { Methods } from "./x402/methods/methods.ts";
import type { X402Part } from "./x402/part.ts";
import type { Services } from "./x402/services.ts";

/** The parts of this build, by name. */
const PARTS: readonly Part[] = Object.values(faces);

const tablesOf = ({ table }: Part): readonly ConfigTable[] => [table ?? []].flat();

/** Returns the parts' additions to the configuration. */
export function partKeys(parts: readonly Part[] = PARTS): PartKeys {
  const schemes = parts.flatMap(({ store }) => store?.schemes ?? []);
  const stores = schemes.flatMap((scheme) => storeAbility(`${scheme}:`) ?? []);
  return {
    tables: parts.flatMap(tablesOf),
    entries: parts.flatMap(({ entries }) => entries ?? []),
    abilities: new Set([...parts.flatMap(({ ability }) => ability ?? []), ...stores]),
    methods: parts.flatMap(({ tokenMethod }) => tokenMethod ?? []),
    charges: parts.flatMap(({ charge }) => charge ?? []),
    paths: parts.flatMap(({ paths }) => paths ?? []),
  };
}

/** Returns the tables of the parts that open stores. */
export function storeTables(): readonly ConfigTable[] {
  return PARTS.filter(({ store }) => store).flatMap(tablesOf);
}

/** @returns the first telemetry that a part offers */
export async function offerTelemetry(logger: Logger): Promise<OfferedTelemetry | undefined> {
  return PARTS.find((part) => part.telemetry)?.telemetry?.(logger);
}

/** Loads the parts that a configuration uses, and the part that serves the telemetry. */
export async function loadParts(config: Config, telemetry: OfferedTelemetry | undefined) {
  const builders = await Promise.all([
    telemetry?.load(),
    ...PARTS.map((part) => part.load?.(config, loadMethods)),
  ]);
  return builders.filter((build) => build !== undefined);
}

/** Returns the kind of store that a URL names. @throws Error when no part of this build opens it */
export function kindOfStore(url: string): StoreKind {
  const scheme = url.slice(0, url.indexOf(":"));
  const kind = PARTS.map(({ store }) => store).find((one) => one?.schemes.includes(scheme));
  if (kind === undefined) throw new Error(`this build has no ${storeAbility(url)}; expected ${SQLITE_URL}`);
  return kind;
}

/**
 * Loads the transfer methods of this build, its versions of x402, its reader of purchase names and its scheme of
 * ceilings. The transfer methods need the libraries of chains.
 */
export async function loadMethods(): Promise<Methods> {
  const [{ Methods }, { Versions }, methods, versions, [purchaseNames], [ceilingScheme]] = await Promise.all([
    import("./x402/methods/methods.ts"),
    import("./x402/wire/version.ts"),
    Promise.all(PARTS.flatMap((part) => part.method?.() ?? [])),
    Promise.all(PARTS.flatMap((part) => part.version?.() ?? [])),
    Promise.all(PARTS.flatMap((part) => part.purchaseNames?.() ?? [])),
    Promise.all(PARTS.flatMap((part) => part.ceilingScheme?.() ?? [])),
  ]);
  return new Methods(methods, new Versions(versions), purchaseNames, ceilingScheme);
}

/** Loads the payers for networks that are not EVM chains, with these networks and their tokens. */
export function loadNetworkPayers(): Promise<readonly PayingPart[]> {
  const loading = PARTS.flatMap(({ payer, tokenMethod }) => {
    const { networks, presets = [] } = tokenMethod ?? {};
    return payer && networks ? [payer().then((loaded) => ({ payer: loaded, networks, presets }))] : [];
  });
  return Promise.all(loading);
}

/** Makes the parts' additions to the gateway that sells jobs. */
export function loadX402Parts(services: Services): Promise<X402Part[]> {
  return Promise.all(PARTS.flatMap((part) => part.x402?.(services) ?? []));
}

/** Checks the peers of all parts, for `jobgate check --online`. */
export function checkPartPeers(
  config: Config,
  inspect: () => Promise<StoreInspection>,
): Promise<PeerFindings[]> {
  return Promise.all(PARTS.flatMap((part) => part.checkPeers?.(config, loadMethods, inspect) ?? []));
}

/** Returns a line for each finding of the parts that know catalogues. */
export async function checkListing(config: Config): Promise<string[]> {
  const found = await Promise.all(PARTS.flatMap((part) => part.checkListing?.(config) ?? []));
  return found.flat();
}
