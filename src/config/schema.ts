import * as z from "zod";
import type { OwnPaths } from "../core/route.ts";
import type { Abilities } from "./abilities.ts";
import type { Checked, Complete } from "./check-shape.ts";
import type { EntryClaims } from "./entry-keys.ts";
import { jobSchema } from "./jobs.ts";
import type { TableListener } from "./part-tables.ts";
import { changesIf, fixed, fixedPresence, neverRemoved } from "./reload.ts";
import { SQLITE_URL, storeAbility, storeUrl } from "./store-url.ts";
import type { TokenMethod } from "./token-method.ts";
import { bearerTokens, integer, pemFile, seconds, u64 } from "./value-types.ts";
import { bindAddress } from "./web-types.ts";
import { webhooksSchema } from "./webhooks.ts";
import { needs } from "./wrong-value.ts";
import { jobPricingSchema, type TokenTable, x402Schema } from "./x402.ts";

/*
 * The keys of the core in the configuration file, with their types and defaults. Each key is spelled as in the resulting
 * Config. The file has the key in snake case, and has seconds where the Config has milliseconds (`leaseMs` is
 * `lease_secs`). rules/ checks keys against each other. A test compares the keys with docs/configuration.md.
 */

/** A listener that requires a token still requires a token after a reload, because the listener keeps its address. */
const listenerTokens = () => neverRemoved(bearerTokens().optional());

const store = z.object({
  /** `sqlite:PATH` or `postgres://…`. A relative path is relative to the working directory. */
  url: needs({ abilityFor: storeAbility, otherwise: SQLITE_URL }, storeUrl()).default("sqlite:jobgate.db"),
  /** Unfinished JobCalls, over all replicas, above which new work is refused. */
  maxPending: fixed(integer(1, 1_000_000_000).default(100_000)),
  /** Approximate size of all results, in bytes, at which paid requests are refused. Default: no limit. */
  maxResultsBytes: fixed(integer(1, Number.MAX_SAFE_INTEGER).optional()),
});

const runnerTls = z.object({
  cert: pemFile(),
  key: pemFile(true),
  /** Authorities whose client certificates are accepted. Undefined if no client certificate is requested. */
  clientCa: fixedPresence(pemFile().optional()),
});

const runner = z.object({
  bindAddress: fixed(bindAddress().prefault("127.0.0.1:8403")),
  token: listenerTokens(),
  leaseMs: fixed(seconds(0.001).default(60_000)),
  /** Deliveries after which a JobCall is a dead letter. */
  maxAttempts: fixed(integer(1, 1_000_000).default(10)),
  retryBaseMs: fixed(seconds(0).default(1_000)),
  retryMaxMs: fixed(seconds(0).default(300_000)),
  /** Time that runners have to finish their work when jobgate stops. */
  drainMs: fixed(seconds(0).default(20_000)),
  tls: fixedPresence(runnerTls.optional()),
});

const operator = z.object({
  bindAddress: fixed(bindAddress().prefault("127.0.0.1:8405")),
  token: listenerTokens(),
});

export const configSchema = z.object({
  /** Service ID of webhook JobCalls. */
  serviceId: fixed(u64().optional()),
  store: store.prefault({}),
  runner: runner.prefault({}),
  operator: operator.prefault({}),
  /** Undefined if the gateway that sells jobs does not listen. */
  x402: fixedPresence(x402Schema.optional()),
  jobs: changesIf(
    (_, __, { used, next }) => (used.x402 === undefined) === (next.x402 === undefined),
    z.array(jobSchema).describe("an array of tables, one for each job").default([]),
  ),
  // The prices of a file are checked only for the price source in that file.
  jobPricing: changesIf(
    (_, __, { used, next }) => used.x402?.priceSource === next.x402?.priceSource,
    jobPricingSchema.default({}),
  ),
  /** Undefined if the webhook gateway does not listen. */
  webhooks: fixedPresence(webhooksSchema.optional()),
});

/** A file whose values were checked one by one. Wrong values are left out. */
export type ConfigTables = Checked<z.output<typeof configSchema>> & {
  readonly abilities: Abilities;
  /** Claims of parts on entries of lists. */
  readonly claims: EntryClaims;
  /** Transfer methods of this build. */
  readonly methods: readonly TokenMethod[];
  /** Values of `charge` that the parts of this build add. */
  readonly charges: readonly string[];
  /** Reports whether a part in the file can charge the payer of a token less than the payer signed. */
  readonly chargesPart: (token: TokenTable) => boolean;
  /** Paths of the parts of this build. */
  readonly paths: readonly OwnPaths[];
  /** Addresses that parts listen on. */
  readonly listeners: readonly TableListener[];
};

export type ConfigSchema = typeof configSchema;
export type CompleteTables = Complete<z.output<typeof configSchema>>;

/** Schema of the keys that locate the operator's API. */
export const operatorSchema = z.object({ operator: operator.prefault({}) });
/** Schema of the keys that locate the store. */
export const storePlaceSchema = z.object({
  store: store.pick({ url: true }).prefault({}),
});
