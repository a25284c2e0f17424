import type { Logger } from "pino";
import type { Config, PeerFindings } from "./config/config.ts";
import type { ConfigTable } from "./config/config-table.ts";
import type { PartKeys } from "./config/load-config.ts";
import type { OfferedTelemetry, Part, StoreKind } from "./part.ts";
import * as faces from "./parts.ts";
import type { Methods } from "./x402/methods/methods.ts";
import type { X402Part } from "./x402/part.ts";
import type { Services } from "./x402/services.ts";

/** The parts of this build, by name. */
const PARTS: readonly Part[] = Object.values(faces);

const tablesOf = ({ table }: Part): readonly ConfigTable[] => [table ?? []].flat();

/** Returns what the parts bring to the configuration. */
export function partKeys(): PartKeys {
  return {
    tables: PARTS.flatMap(tablesOf),
    entries: PARTS.flatMap(({ entries }) => entries ?? []),
    abilities: new Set(PARTS.flatMap(({ ability }) => ability ?? [])),
    methods: PARTS.flatMap(({ tokenMethod }) => tokenMethod ?? []),
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

/** Loads the parts that a configuration asks for, and what shows the telemetry. */
export async function loadParts(config: Config, telemetry: OfferedTelemetry | undefined) {
  const builders = await Promise.all([
    telemetry?.load(),
    ...PARTS.map((part) => part.load?.(config, loadMethods)),
  ]);
  return builders.filter((build) => build !== undefined);
}

/** Returns the kind of store that the URLs of a scheme name; undefined if no part of this build opens it. */
export function findStoreKind(scheme: string): StoreKind | undefined {
  return PARTS.map(({ store }) => store).find((kind) => kind?.schemes.includes(scheme));
}

/** Loads the transfer methods of this build, which need the libraries of chains. */
export async function loadMethods(): Promise<Methods> {
  const [{ Methods }, ...added] = await Promise.all([
    import("./x402/methods/methods.ts"),
    ...PARTS.map((part) => part.method?.()),
  ]);
  return new Methods(added.filter((method) => method !== undefined));
}

/** Makes what the parts add to the gateway that sells jobs. */
export function loadX402Parts(services: Services): Promise<X402Part[]> {
  return Promise.all(PARTS.flatMap((part) => part.x402?.(services) ?? []));
}

/** Checks the peers of all parts, for `jobgate check --online`. */
export function checkPartPeers(config: Config): Promise<PeerFindings[]> {
  return Promise.all(PARTS.flatMap((part) => part.checkPeers?.(config, loadMethods) ?? []));
}
