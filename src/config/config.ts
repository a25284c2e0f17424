import { defined } from "../core/objects.ts";
import type { Complete } from "./check-shape.ts";
import { KEEP } from "./jobs.ts";
import type { PartTables } from "./part-tables.ts";
import type { CompleteTables, ConfigTables } from "./schema.ts";
import type { ShownTable } from "./shown.ts";
import { secretList } from "./value-types.ts";
import { fillEndpoint, toWebhooksConfig } from "./webhooks.ts";
import { fillX402, toX402Config, withFacilitatorList } from "./x402.ts";

/** The configuration after it is read, checked and completed. */
export type Config = Complete<ReturnType<typeof toConfig>> & {
  /** All tables as operators see them. */
  readonly shown: ShownTable;
  /** The file from which the configuration was made, for the next reload. */
  readonly file: ReloadableFile;
};

export interface ReloadableFile {
  /** Returns the configuration in effect after a reload of the next file. */
  afterReload(next: this): Config;
  /** Returns the keys of the next file that a reload does not change, as the file spells them. */
  needRestart(next: this): readonly string[];
}

export type StoreConfig = Config["store"];
/** Place of a store, with the tables of parts that open stores. */
export type StorePlace = Pick<StoreConfig, "url" | "parts">;
export type RunnerConfig = Config["runner"];
export type OperatorConfig = Config["operator"];

export type { InProcessFacilitatorConfig, JobRunner, LeastCharge, LiveRateSource } from "./entry-keys.ts";
export type { FacilitatorConfig, RemoteFacilitatorConfig } from "./facilitators.ts";
export type { JobPolicy, JobRestriction } from "./job-policies.ts";
export type { Job, JobBody } from "./jobs.ts";
export type {
  WebhookAuth,
  WebhookChallenge,
  WebhookDedupe,
  WebhookEndpoint,
  WebhookSecret,
  WebhooksConfig,
} from "./webhooks.ts";
export type {
  AcceptedToken,
  X402Config,
  X402Limits,
} from "./x402.ts";
export { isSoldIn } from "./x402.ts";

/** A problem with a peer, at the configuration key that names the peer. */
export interface PeerProblem {
  readonly path: readonly (string | number)[];
  /** Never contains the URL, which may contain a key. */
  readonly message: string;
}

/** Results of querying peers. */
export interface PeerFindings {
  /** Facts about the peers, for people. */
  readonly notes: readonly string[];
  readonly problems: readonly PeerProblem[];
}

/** Tables in which each value has one key, even if the file uses an alias. */
export type CheckedTables = ReturnType<typeof withoutAliases>;

/** Moves each value to one key, even if the file uses an alias. */
export function withoutAliases({ x402, ...tables }: CompleteTables) {
  const serviceId = serviceIdOf({ ...tables, x402 });
  return defined({ ...tables, serviceId, x402: x402 && withFacilitatorList(x402) });
}

/** Abilities that the parts of a build give to a file, and the entries of the file that the parts claim. */
type OfParts = Pick<ConfigTables, "abilities" | "claims">;

/** Tables of the core with the values that follow from other keys. */
export type FilledTables = ReturnType<typeof withDerivedValues>;

/** Fills the values that follow from other keys, so that the gateway uses and operators see the same. */
export function withDerivedValues(
  { jobs, x402, webhooks, ...tables }: CheckedTables,
  { abilities, claims }: OfParts,
) {
  const { serviceId } = tables;
  // No job makes a promise until the file has the table that the promise needs.
  const canMake = (promise: string) => x402 === undefined || abilities.makes(promise);
  return defined({
    ...tables,
    jobs: jobs.map((job) => ({
      ...job,
      serviceId: job.serviceId ?? serviceId,
      onFailure: canMake(job.onFailure) ? job.onFailure : KEEP,
    })),
    x402: x402 && fillX402(x402, claims),
    webhooks: webhooks && { ...webhooks, endpoints: webhooks.endpoints.map(fillEndpoint) },
  });
}

/** Completes the tables of the core. */
export function toConfig(tables: FilledTables, { abilities, claims }: OfParts, parts: PartTables) {
  const { store, operator, serviceId, x402, jobs, jobPricing, webhooks } = tables;
  return defined({
    store: {
      ...store,
      /** Tables of parts, as in the whole configuration. */
      parts,
    },
    runner: toRunner(tables.runner),
    operator: toOperator(operator),
    /** u64 */
    serviceId,
    x402:
      x402 &&
      toX402Config(x402, {
        pricing: jobPricing,
        jobs,
        claims,
        parts,
        abilities,
      }),
    webhooks: webhooks && toWebhooksConfig(webhooks, claims),
    /** Tables of parts: each part finds its own. */
    parts,
  });
}

/** Returns the gateway's service, which applies to webhook JobCalls and to jobs that name no service. */
export function serviceIdOf({
  serviceId,
  x402,
}: {
  readonly serviceId?: bigint | undefined;
  readonly x402?: { readonly serviceId?: bigint | undefined } | undefined;
}): bigint {
  return serviceId ?? x402?.serviceId ?? 0n;
}

function toRunner({ token, tls, ...runner }: CompleteTables["runner"]) {
  return defined({
    ...runner,
    /** Each of the tokens is accepted; empty if no token is needed. */
    tokens: secretList(token),
    /** The values are PEM texts. */
    tls: tls && defined({ cert: tls.cert.text, key: tls.key.text, clientCa: tls.clientCa?.text }),
  });
}

export function toOperator({ token, ...operator }: Pick<CompleteTables, "operator">["operator"]) {
  return {
    ...operator,
    /** Each of the tokens is accepted; empty if no token is needed. */
    tokens: secretList(token),
  };
}
