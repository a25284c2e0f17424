import * as z from "zod";
import { isTable } from "./config-files.ts";
import { fileKey, type MistakeList, type Place } from "./mistakes.ts";
import { type ShownTable, shownTable } from "./shown.ts";

/** A source of a token's rate that changes without a new configuration. A part queries it. */
export interface LiveRateSource {
  /** Name of the kind for operators. Never `fixed`. */
  readonly kind: string;
}

/** What a part makes of an entry of each list, or of a table in each entry. */
interface OwnByList {
  readonly "x402.acceptedTokens": LiveRateSource;
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

/** The entries of a file that parts claim. */
export class EntryClaims {
  readonly #keys: readonly EntryKeys[];
  readonly #claims: { readonly by: EntryKeys; readonly place: Place; readonly claim: EntryClaim }[] = [];

  /** Takes the keys of parts out of the checked tables of a file. */
  constructor(keys: readonly EntryKeys[], tables: object, mistakes: MistakeList) {
    this.#keys = keys;
    for (const by of keys) {
      for (const [entry, place] of tablesAt(tables, by.list.split("."), mistakes.at())) {
        const claim = by.claim({ ...entry }, place);
        if (claim !== undefined) this.#claims.push({ by, place, claim });
        for (const key of Object.keys(by.keys)) delete entry[key];
      }
    }
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

  /** Adds what operators see of the keys to what they see of the tables of the core. */
  addShown(core: ShownTable): void {
    for (const { by, place, claim } of this.#claims) {
      const entry = place.path.reduce((table, key) => (table as ShownTable)[key] as ShownTable, core);
      Object.assign(entry, shownTable(z.object(by.keys), claim.keys, place));
    }
  }
}

/** Finds the tables at a path, in each entry of the arrays on the way. */
function* tablesAt(
  value: unknown,
  path: readonly string[],
  place: Place,
): Iterable<[Record<string, unknown>, Place]> {
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) yield* tablesAt(item, path, place.at(i));
  } else if (isTable(value)) {
    const [key, ...rest] = path;
    if (key === undefined) yield [value as Record<string, unknown>, place];
    else yield* tablesAt((value as Record<string, unknown>)[key], rest, place.at(fileKey(key)));
  }
}
