import type * as z from "zod";
import type { NetworkKind } from "../core/addresses.ts";
import type { Price, RequestPricing } from "../core/amounts.ts";
import type { CallOrder, JobLimit } from "../core/job-call.ts";
import type { MistakeList, Place } from "./mistakes.ts";
import { changeAt, omit, tablesAt } from "./tables-at.ts";
import type { anyNetwork } from "./value-types.ts";

/** A source of a token's rate that changes without a new configuration. A part queries it. */
export interface LiveRateSource {
  /** Name of the kind for operators. Never `fixed`. */
  readonly kind: string;
}

/** A way to authenticate to a remote facilitator. It sets the Authorization header. */
export interface RequestAuth {
  /** Makes headers for one request, for example a token that is valid for this request only. */
  readonly newHeaders: (method: string, url: URL) => Readonly<Record<string, string>>;
}

/** A facilitator in this process, which a part makes. */
export interface InProcessFacilitatorConfig {
  readonly kind: "in_process";
  /** Name in the journal, logs and metrics. */
  readonly name: string;
  /** RPCs of the networks on which the facilitator settles. */
  readonly chains: readonly { readonly network: string; readonly rpcUrl: string }[];
}

/** A runner in this process, which a part makes. */
export interface JobRunner {
  /** Name of the kind. */
  readonly kind: string;
  /** Name of the runner in the configuration. Runners of one kind have different names. */
  readonly name: string;
  /**
   * True if the runner forwards the headers of a request. The metadata then has one character for each byte of a
   * header, instead of the decoded text.
   */
  readonly sendsHeadersOn?: boolean;
}

/** Type of the claims for the entries of a list, or for the table in each entry. */
interface ClaimByList {
  readonly jobs: JobClaim;
  readonly "jobs.price": PriceClaim;
  readonly "webhooks.endpoints": EntryClaim<EndpointOfPart>;
  readonly "x402.acceptedTokens": EntryClaim<LiveRateSource>;
  readonly "x402.facilitators": FacilitatorClaim;
  readonly "x402.facilitators.auth": EntryClaim<RequestAuth>;
}

export type EntryList = keyof ClaimByList;

/** Keys that a part adds to each entry of a list of the core, or to a table that is a value in the entries. */
export interface EntryKeys<List extends EntryList = EntryList> {
  readonly list: List;
  readonly keys: z.ZodRawShape;
  /** Makes the keys that name networks, for a build that supports networks other than EVM chains. */
  readonly keysWith?: (network: ReturnType<typeof anyNetwork>) => z.ZodRawShape;
  /** Describes in mistakes the part's alternative to the core's keys of an entry: `a rate_source`. */
  readonly alternative: string;
  /**
   * Claims an entry that has the keys, or reports the keys if the entry must not have them.
   * @param entry all keys of the entry
   * @param tables all tables of the file
   * @returns undefined if the part does not claim the entry
   */
  claim(entry: object, place: Place, tables: object): ClaimByList[List] | undefined;
}

/** An entry that a part claims. The core's rules about the values that the keys replace do not apply. */
export interface EntryClaim<Own = unknown> {
  /** The keys of the part, with the values that follow from other keys. */
  readonly keys: object;
  /** Reports mistakes of the keys. */
  check(context: EntryContext): void | Promise<void>;
  /** Completes keys without mistakes. */
  complete(): Own;
}

export interface EntryContext {
  /** Kinds of networks other than EVM chains. */
  readonly networkKinds: readonly NetworkKind[];
}

/** A job that a part runs or adds terms to. */
export interface JobClaim extends EntryClaim<JobOfPart> {
  /** Name, for mistakes, of what the part runs the job with. Undefined if runners run the job. */
  readonly runBy?: string;
  /** Headers that the operator sets instead of the buyers, in lower case. */
  readonly setHeaders?: readonly string[];
}

/** Additions of a part to a job. */
export interface JobOfPart {
  /** Runner in the part, if the part runs the job. */
  readonly runner?: JobRunner;
  /** Names of the part's terms on which the job is sold. */
  readonly terms?: readonly string[];
  readonly leastCharge?: LeastCharge;
  readonly limit?: CallLimit;
}

/** Limit on the leased JobCalls of a job or of a webhook endpoint. */
export type CallLimit = Omit<JobLimit, "jobId">;

/** Additions of a part to a webhook endpoint. */
export interface EndpointOfPart {
  readonly limit?: CallLimit;
  /** Returns the order key of a request's JobCall; undefined if the JobCall has no order. */
  readonly orderOf?: (
    request: { headerValues(name: string): readonly string[] },
    body: Uint8Array,
  ) => CallOrder | undefined;
}

/**
 * Returns the minimum charge, in token units, for a payment with this ceiling. The minimum applies if the payment
 * expires while the job runs.
 */
export type LeastCharge = (ceiling: { readonly amount: string; readonly priceWei: bigint }) => string;

/** A price of a job in the form of a table. */
export interface PriceClaim extends EntryClaim<RequestPricing> {
  /** Headers that the price depends on, in lower case. */
  readonly headers: readonly string[];
  /** Prices that the table names, including the lowest and the highest. A price with a mistake is left out. */
  readonly bounds: readonly Price[];
}

/** An entry of a facilitator that runs in this process. */
export interface FacilitatorClaim extends EntryClaim<InProcessFacilitatorConfig> {
  /** Name in the journal, which tells facilitators apart. */
  readonly name: string;
  /** CAIP-2. */
  readonly networks: readonly string[];
  /**
   * Signing keys of the facilitator, and its accounts on networks that are not EVM chains. They are known once they are
   * checked. No other signer may use them.
   */
  readonly accounts: ReadonlySet<string>;
}

interface Claimed {
  readonly by: EntryKeys;
  readonly place: Place;
  readonly claim: EntryClaim;
}

/** The entries of a file that parts claim. */
export class EntryClaims {
  readonly #keys: readonly EntryKeys[];
  readonly #claims: readonly Claimed[];
  /** Claims by list and index of their entries. */
  readonly #byEntry = new Map<string, Claimed[]>();

  private constructor(keys: readonly EntryKeys[], claims: readonly Claimed[]) {
    this.#keys = keys;
    this.#claims = claims;
    for (const claimed of claims) {
      const { by, place } = claimed;
      const key = `${by.list} ${place.path.find((part) => typeof part === "number")}`;
      this.#byEntry.set(key, [...(this.#byEntry.get(key) ?? []), claimed]);
    }
  }

  /** Finds the claims of parts in the checked tables of a file, and fills the claimed keys there. */
  static in(tables: object, keys: readonly EntryKeys[], mistakes: MistakeList): EntryClaims {
    const claims: Claimed[] = [];
    for (const by of keys) {
      for (const [entry, place] of tablesAt(tables, by.list.split("."), mistakes.at())) {
        const claim = by.claim({ ...entry }, place, tables);
        if (claim === undefined) continue;
        claims.push({ by, place, claim });
        Object.assign(entry, claim.keys);
      }
    }
    return new EntryClaims(keys, claims);
  }

  /** Returns the claims after a reload, which keeps the claims in use at some paths. */
  afterReload(next: EntryClaims, isInUse: (path: string) => boolean): EntryClaims {
    const used = this.#claims.filter(({ place }) => isInUse(place.text));
    return new EntryClaims(next.#keys, [
      ...used,
      ...next.#claims.filter(({ place }) => !isInUse(place.text)),
    ]);
  }

  /** Returns the claim of an entry; undefined if no part claims it. */
  of<List extends EntryList>(list: List, i: number): ClaimByList[List] | undefined {
    return this.all(list, i)[0];
  }

  /** Returns the claims of an entry that several parts can claim. */
  all<List extends EntryList>(list: List, i: number): ClaimByList[List][] {
    const found = this.#byEntry.get(`${list} ${i}`) ?? [];
    return found.map(({ claim }) => claim as ClaimByList[List]);
  }

  /** Returns descriptions, for mistakes, of the parts' alternatives to the core's keys in entries of a list. */
  alternatives(list: EntryList): string[] {
    return this.#keys.filter((keys) => keys.list === list).map(({ alternative }) => alternative);
  }

  async check(context: EntryContext): Promise<void> {
    await Promise.all(this.#claims.map(async ({ claim }) => claim.check(context)));
  }

  /** Returns tables without the keys of parts in entries. */
  leaveOut<Tables extends object>(tables: Tables): Tables {
    return this.#keys.reduce(
      (all, { list, keys }) => changeAt(all, list.split("."), (entry) => omit(entry, keys)),
      tables,
    );
  }
}
