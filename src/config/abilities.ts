import * as z from "zod";
import type { FailurePromise } from "../core/payment.ts";
import { withoutDefault } from "./check-shape.ts";
import { isTable } from "./config-files.ts";
import { fileKey, type MistakeList, type Place } from "./mistakes.ts";
import { notesOf } from "./wrong-value.ts";

/** A table of a part. It can give an ability to each configuration file that contains it. */
export interface AbilityTable {
  /** Path of the table that contains this table, spelled as in the schema. */
  readonly parent: readonly string[];
  readonly keys: z.ZodRawShape;
  readonly gives: GivenAbility | undefined;
  keysIn(file: object): object | undefined;
  isGivenIn(file: object): boolean;
}

export interface GivenAbility {
  readonly ability: string;
  /** Describes the table in the mistakes of a file without it: `the table with the address of the pricing engine`. */
  readonly table: string;
  /** Promises to buyers that a file with the ability can make, sorted by their worth to a buyer, the best promise first. */
  readonly promises?: readonly FailurePromise[];
}

/** Abilities that the parts of a build give. */
export interface BuildAbilities {
  readonly tables: readonly AbilityTable[];
  /** Abilities that need no table. */
  readonly abilities: ReadonlySet<string>;
}

/** A promise, and the ability that it needs. */
export interface PromiseOfAbility extends FailurePromise {
  readonly ability: string;
}

/** Returns the promises to buyers that a build can make. */
export function promisesOf({ tables }: Pick<BuildAbilities, "tables">): PromiseOfAbility[] {
  return tables.flatMap(({ gives }) =>
    (gives?.promises ?? []).map((promise) => ({ ...promise, ability: gives?.ability ?? "" })),
  );
}

/** Abilities that parts give to one configuration file. */
export class Abilities {
  readonly #build: BuildAbilities;
  readonly #file: object;

  constructor(build: BuildAbilities, file: object) {
    this.#build = build;
    this.#file = file;
  }

  /** Returns the abilities of the same build for another file. */
  at(file: object): Abilities {
    return new Abilities(this.#build, file);
  }

  /** Returns true if the build has the ability, and the file has the table that gives the ability. */
  has(ability: string): boolean {
    const table = this.tableFor(ability);
    return table === undefined ? this.#build.abilities.has(ability) : table.isGivenIn(this.#file);
  }

  /** Promises that the build can make, sorted by their worth to a buyer, the best promise first. */
  get promises(): readonly PromiseOfAbility[] {
    return promisesOf(this.#build);
  }

  /** Returns true if the file can make a promise. */
  makes(promise: string): boolean {
    return this.promises.some(({ name, ability }) => name === promise && this.has(ability));
  }

  /** Returns true if the build has the ability. */
  isInBuild(ability: string): boolean {
    return this.#build.abilities.has(ability) || this.tableFor(ability) !== undefined;
  }

  /** Returns the table that gives the ability to a file; undefined if the ability needs no table. */
  tableFor(ability: string): AbilityTable | undefined {
    return this.#build.tables.find(({ gives }) => gives?.ability === ability);
  }
}

/**
 * Checks that the build has the abilities that values of the core's keys need, and that the file has the tables that
 * give these abilities.
 */
export function checkAbilities(
  schema: z.ZodType,
  file: { readonly abilities: Abilities },
  mistakes: MistakeList,
): void {
  const { abilities } = file;
  for (const { ability, otherwise, found, place } of needsIn(schema, file, mistakes.at())) {
    const table = abilities.tableFor(ability);
    if (!abilities.isInBuild(ability)) {
      place.report(`${found}, and this build has no ${ability}; expected ${otherwise}`);
    } else if (table?.keysIn(file) !== undefined && !abilities.has(ability)) {
      mistakes
        .at(...table.parent.map(fileKey), ...Object.keys(table.keys).slice(0, 1).map(fileKey))
        .reportMissing(`is missing; expected ${table.gives?.table}, since ${place.text} ${found}`);
    }
  }
}

interface NeedOfValue {
  readonly ability: string;
  readonly otherwise: string;
  /** Describes the value that needs the ability. */
  readonly found: string;
  readonly place: Place;
}

function* needsIn(declared: z.core.$ZodType, value: unknown, place: Place): Iterable<NeedOfValue> {
  if (value === undefined) return;
  const schema = withoutDefault(declared);
  const { needs = notesOf(schema).needs } = notesOf(declared);
  const ability = needs?.abilityFor(value);
  if (needs !== undefined && ability !== undefined) {
    const found = Array.isArray(value)
      ? `has ${value.length} entries`
      : // The view contains no secret.
        `is ${JSON.stringify(notesOf(schema).view?.(value))}`;
    yield { ability, otherwise: needs.otherwise, found, place };
  }
  if (schema instanceof z.ZodObject && isTable(value)) {
    for (const [name, ofKey] of Object.entries(schema.shape))
      yield* needsIn(ofKey, value[name], place.at(fileKey(name)));
  } else if (schema instanceof z.ZodArray && Array.isArray(value)) {
    for (const [i, item] of value.entries()) yield* needsIn(schema.element, item, place.at(i));
  }
}
