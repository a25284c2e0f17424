import type * as z from "zod";
import type { MistakeList, Place } from "./mistakes.ts";
import { changeAt, omit, tablesAt } from "./tables-at.ts";

/** A source of a token's rate that changes without a new configuration. A part queries it. */
export interface LiveRateSource {
  /** Name of the kind for operators. Never `fixed`. */
  readonly kind: string;
}

/** A way to prove to a remote facilitator who asks. It sets the Authorization header. */
export interface RequestAuth {
  /** Makes headers for one request, for example a token that is good for no other. */
  readonly newHeaders: (method: string, url: URL) => Readonly<Record<string, string>>;
}

/** What a part makes of an entry of each list, or of a table in each entry. */
interface OwnByList {
  readonly "x402.acceptedTokens": LiveRateSource;
  readonly "x402.facilitators.auth": RequestAuth;
}

export type EntryList = keyof OwnByList;

/** Keys that a part brings to each entry of a list of the core. */
export interface EntryKeys<List extends EntryList = EntryList> {
  readonly list: List;
  readonly keys: z.ZodRawShape;
  /** Name in mistakes of what an entry can have instead of keys of the core: `a rate_source`. */
  readonly alternative: string;
  /**
   * Claims an entry that has the keys, or reports them where the entry must not have them.
   * @param entry all keys of the entry
   * @returns undefined if the entry is not the part's
   */
  claim(entry: object, place: Place): EntryClaim<OwnByList[List]> | undefined;
}

/** An entry that a part claims: rules of the core about what its keys stand for do not apply. */
export interface EntryClaim<Own = OwnByList[EntryList]> {
  /** The keys of the part, with the values that follow from other keys. */
  readonly keys: object;
  /** Reports mistakes of the keys. */
  check(): void | Promise<void>;
  /** Completes keys without mistakes. */
  complete(): Own;
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

  private constructor(keys: readonly EntryKeys[], claims: readonly Claimed[]) {
    this.#keys = keys;
    this.#claims = claims;
  }

  /** Finds the claims of parts in the checked tables of a file, and fills the claimed keys there. */
  static in(tables: object, keys: readonly EntryKeys[], mistakes: MistakeList): EntryClaims {
    const claims: Claimed[] = [];
    for (const by of keys) {
      for (const [entry, place] of tablesAt(tables, by.list.split("."), mistakes.at())) {
        const claim = by.claim({ ...entry }, place);
        if (claim === undefined) continue;
        claims.push({ by, place, claim });
        Object.assign(entry, claim.keys);
      }
    }
    return new EntryClaims(keys, claims);
  }

  /** Returns the claims after a reload, of which some are those in use. */
  afterReload(next: EntryClaims, isInUse: (path: string) => boolean): EntryClaims {
    const used = this.#claims.filter(({ place }) => isInUse(place.text));
    return new EntryClaims(next.#keys, [
      ...used,
      ...next.#claims.filter(({ place }) => !isInUse(place.text)),
    ]);
  }

  /** Returns the claim of an entry; undefined if no part claims it. */
  of<List extends EntryList>(list: List, i: number): EntryClaim<OwnByList[List]> | undefined {
    const found = this.#claims.find(({ by, place }) => by.list === list && place.path.includes(i));
    return found?.claim as EntryClaim<OwnByList[List]> | undefined;
  }

  /** Returns the names in mistakes of what entries of a list can have instead of keys of the core. */
  alternatives(list: EntryList): string[] {
    return this.#keys.filter((keys) => keys.list === list).map(({ alternative }) => alternative);
  }

  async check(): Promise<void> {
    await Promise.all(this.#claims.map(async ({ claim }) => claim.check()));
  }

  /** Returns tables without the keys of parts in entries. */
  leaveOut<Tables extends object>(tables: Tables): Tables {
    return this.#keys.reduce(
      (all, { list, keys }) => changeAt(all, list.split("."), (entry) => omit(entry, keys)),
      tables,
    );
  }
}
