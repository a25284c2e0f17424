import { isDeepStrictEqual } from "node:util";
import type { Abilities } from "./abilities.ts";
import {
  type CheckedTables,
  type Config,
  type ReloadableFile,
  toConfig,
  withDerivedValues,
} from "./config.ts";
import { type ConfigTable, completeParts } from "./config-table.ts";
import type { EntryClaims } from "./entry-keys.ts";
import type { MistakeList } from "./mistakes.ts";
import { type Merged, mergeTables } from "./reload.ts";
import type { ConfigSchema } from "./schema.ts";
import { shownTable } from "./shown.ts";

interface Contents {
  /** Keys of the core and of the parts. */
  readonly schema: ConfigSchema;
  /** Values of these keys, as the file has them. */
  readonly tables: CheckedTables;
  readonly ofParts: readonly ConfigTable[];
  readonly abilities: Abilities;
  readonly claims: EntryClaims;
  /** Results of the parts' checks, by table, such as the keys that the parts read from files. */
  readonly read: ReadonlyMap<ConfigTable, unknown>;
  /** List of the mistakes, which also knows the origins of values. */
  readonly places: MistakeList;
}

/** A configuration file without mistakes, or the merge of two files that is in use after a reload. */
export class CheckedFile implements ReloadableFile {
  readonly #contents: Contents;

  constructor(contents: Contents) {
    this.#contents = contents;
  }

  /** Makes the configuration. */
  complete(): Config {
    const { schema, tables, ofParts, claims, read, places } = this.#contents;
    const given = { abilities: this.#contents.abilities.at(tables), claims };
    const filled = ofParts.reduce((all, table) => table.fillIn(all), withDerivedValues(tables, given));
    const ofCore = ofParts.reduce((all, table) => table.leaveOut(all), claims.leaveOut(filled));
    const config = toConfig(ofCore, given, completeParts(ofParts, filled, read));
    return { ...config, shown: shownTable(schema, filled, places.at()), file: this };
  }

  needRestart(next: this): readonly string[] {
    const { needRestart } = this.#mergeWith(next);
    // No job makes a promise until the table that the promise needs is in use.
    const promises = ({ x402 }: Config) => x402?.jobs?.map(({ onFailure }) => onFailure);
    const waits = !isDeepStrictEqual(promises(this.afterReload(next)), promises(next.complete()));
    return waits && !needRestart.includes("jobs") ? [...needRestart, "jobs.on_failure"] : needRestart;
  }

  afterReload(next: this): Config {
    const used = this.#contents;
    const { claims, read, places, ...contents } = next.#contents;
    const { tables, isInUse } = this.#mergeWith(next);
    const readAfter = (table: ConfigTable) => (table.paths.every(isInUse) ? used.read : read).get(table);
    return new CheckedFile({
      ...contents,
      tables,
      claims: used.claims.afterReload(claims, isInUse),
      read: new Map(contents.ofParts.map((table) => [table, readAfter(table)])),
      places: places.withNotesOf(used.places, isInUse),
    }).complete();
  }

  #mergeWith(next: this): Merged<CheckedTables> {
    const { schema, tables } = this.#contents;
    return mergeTables(schema, { used: tables, next: next.#contents.tables });
  }
}

/** Returns the configuration in effect after a reload. Marks in the schema determine which keys a reload changes. */
export function afterReload(running: Config, next: Config): Config {
  return running.file.afterReload(next.file);
}

/** Returns the changed tables and keys that a reload ignores, as the file spells them. */
export function changesThatNeedRestart(running: Config, next: Config): string[] {
  return [...running.file.needRestart(next.file)];
}
