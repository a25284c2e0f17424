import type { Logger } from "pino";
import type { Config, PeerProblem } from "./config/config.ts";
import type { ConfigTable } from "./config/config-table.ts";
import type { OfferedTelemetry, Part, StoreKind } from "./part.ts";
import type { X402Part } from "./x402/part.ts";
import type { Services } from "./x402/services.ts";

/** The parts of this build, in the order in which they are built. To delete a part, delete its line and its folder. */
const PARTS: readonly (() => Promise<{ readonly part: Part }>)[] = [
  () => import("./parts/telemetry/part.ts"),
  () => import("./parts/operator/part.ts"),
  () => import("./parts/page/part.ts"),
  () => import("./parts/postgres/part.ts"),
  () => import("./parts/pricing-engine/part.ts"),
  () => import("./parts/rates/part.ts"),
  () => import("./parts/local-facilitator/part.ts"),
  () => import("./parts/facilitator-service/part.ts"),
  () => import("./parts/failover/part.ts"),
  () => import("./parts/refunds/part.ts"),
  () => import("./parts/work-stream/part.ts"),
  () => import("./parts/push/part.ts"),
  () => import("./parts/callbacks/part.ts"),
  () => import("./parts/retention/part.ts"),
  () => import("./parts/books/part.ts"),
  () => import("./parts/catalogue/part.ts"),
  () => import("./parts/shop/part.ts"),
  () => import("./parts/receipts/part.ts"),
  () => import("./parts/sign-in/part.ts"),
  () => import("./parts/mpp/part.ts"),
  () => import("./parts/mcp/part.ts"),
];

/** Returns what the parts bring to the configuration. */
export async function partTables(): Promise<ConfigTable[]> {
  const parts = await Promise.all(PARTS.map((load) => load()));
  return parts.flatMap(({ part }) => part.table ?? []);
}

/** @returns the first telemetry that a part offers */
export async function offerTelemetry(logger: Logger): Promise<OfferedTelemetry | undefined> {
  // One after the other, because the store opens only then: the part that offers it is the first.
  for (const load of PARTS) {
    const { part } = await load();
    if (part.telemetry) return part.telemetry(logger);
  }
  return undefined;
}

/** Loads the parts that a configuration asks for, and what shows the telemetry. */
export async function loadParts(config: Config, telemetry: OfferedTelemetry | undefined) {
  const builders = await Promise.all([
    telemetry?.load(),
    ...PARTS.map(async (load) => (await load()).part.load?.(config)),
  ]);
  return builders.filter((build) => build !== undefined);
}

/** Returns the kind of store that the URLs of a scheme name; undefined if no part of this build opens it. */
export async function findStoreKind(scheme: string): Promise<StoreKind | undefined> {
  const faces = await Promise.all(PARTS.map((load) => load()));
  return faces.map(({ part }) => part.store).find((kind) => kind?.schemes.includes(scheme));
}

/** Makes what the parts add to the gateway that sells jobs. */
export async function loadX402Parts(services: Services): Promise<X402Part[]> {
  const made = await Promise.all(PARTS.map(async (load) => (await load()).part.x402?.(services)));
  return made.filter((part) => part !== undefined);
}

/** Checks the peers of all parts, for `jobgate check --online`. */
export async function findPartProblems(config: Config): Promise<PeerProblem[]> {
  const found = await Promise.all(
    PARTS.map(async (load) => (await load()).part.findProblems?.(config) ?? []),
  );
  return found.flat();
}
