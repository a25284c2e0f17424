import type { Logger } from "pino";
import type { Config, PeerProblem } from "./config/config.ts";
import type { PartKeys } from "./config/load-config.ts";
import type { OfferedTelemetry, Part, StoreKind } from "./part.ts";
import { part as books } from "./parts/books/part.ts";
import { part as callbacks } from "./parts/callbacks/part.ts";
import { part as catalogue } from "./parts/catalogue/part.ts";
import { part as facilitatorService } from "./parts/facilitator-service/part.ts";
import { part as failover } from "./parts/failover/part.ts";
import { part as localFacilitator } from "./parts/local-facilitator/part.ts";
import { part as mcp } from "./parts/mcp/part.ts";
import { part as mpp } from "./parts/mpp/part.ts";
import { part as operator } from "./parts/operator/part.ts";
import { part as page } from "./parts/page/part.ts";
import { part as permit2 } from "./parts/permit2/part.ts";
import { part as postgres } from "./parts/postgres/part.ts";
import { part as pricingEngine } from "./parts/pricing-engine/part.ts";
import { part as push } from "./parts/push/part.ts";
import { part as rates } from "./parts/rates/part.ts";
import { part as receipts } from "./parts/receipts/part.ts";
import { part as refunds } from "./parts/refunds/part.ts";
import { part as retention } from "./parts/retention/part.ts";
import { part as shop } from "./parts/shop/part.ts";
import { part as signIn } from "./parts/sign-in/part.ts";
import { part as telemetry } from "./parts/telemetry/part.ts";
import { part as workStream } from "./parts/work-stream/part.ts";
import type { Methods } from "./x402/methods/methods.ts";
import type { X402Part } from "./x402/part.ts";
import type { Services } from "./x402/services.ts";

/**
 * The parts of this build, in the order in which they are built. To delete a part, delete its two lines here and its
 * folder. Every command that reads a configuration loads these faces, so they are small.
 */
const PARTS: readonly Part[] = [
  telemetry,
  operator,
  page,
  postgres,
  pricingEngine,
  rates,
  localFacilitator,
  facilitatorService,
  failover,
  refunds,
  workStream,
  push,
  callbacks,
  retention,
  books,
  catalogue,
  shop,
  receipts,
  signIn,
  permit2,
  mpp,
  mcp,
];

/** Returns what the parts bring to the configuration. */
export function partKeys(): PartKeys {
  return {
    tables: PARTS.flatMap(({ table }) => table ?? []),
    methods: PARTS.flatMap(({ tokenMethod }) => tokenMethod ?? []),
  };
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
export async function findPartProblems(config: Config): Promise<PeerProblem[]> {
  const found = await Promise.all(PARTS.flatMap((part) => part.findProblems?.(config) ?? []));
  return found.flat();
}
