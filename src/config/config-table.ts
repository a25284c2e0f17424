import * as z from "zod";
import type { NetworkKind } from "../core/addresses.ts";
import type { GivenAbility } from "./abilities.ts";
import { type Checked, type Complete, withoutDefault } from "./check-shape.ts";
import type { FilledTables } from "./config.ts";
import { fileKey, type MistakeList, type Place } from "./mistakes.ts";
import type { PartTable, PartTables, TableListener } from "./part-tables.ts";
import type { ConfigTables } from "./schema.ts";
import { changeAt, omit, pick, type Table } from "./tables-at.ts";
import type { anyNetwork } from "./value-types.ts";
import type { AcceptedToken, TokenTable } from "./x402.ts";

/** Surroundings of a table, for its checks. */
export interface TableContext {
  /** The tables of the core. */
  readonly tables: ConfigTables;
  /** Place of the table that has the keys. */
  readonly place: Place;
  /** Mistakes of the whole file. */
  readonly mistakes: MistakeList;
  /** Networks that are not EVM chains, on which methods of the build pay. */
  readonly networkKinds: readonly NetworkKind[];
}

/** Keys that contain addresses or networks, and the tables that lead to the keys. */
interface AccountKeys {
  readonly path: readonly string[];
  keys(address: z.ZodType<string | undefined>, network: ReturnType<typeof anyNetwork>): z.ZodRawShape;
}

type Output<Keys extends z.ZodRawShape> = z.output<z.ZodObject<Keys>>;

interface Declaration<Keys extends z.ZodRawShape, Own, Read> {
  /** Table that has the keys, spelled as in the schema. Undefined if the keys are at the top level of the file. */
  readonly in?: readonly string[];
  readonly keys: Keys;
  /** Keys, possibly in nested tables, that accept accounts on each kind of network that the parts of the build support. */
  readonly accounts?: AccountKeys;
  /**
   * Ability that a file has if the file has one of these keys. Keys of the core need abilities (`needs` in
   * wrong-value.ts).
   */
  readonly gives?: GivenAbility;
  /** Checks the keys against each other and against the tables of the core. */
  check?(keys: Checked<Output<Keys>>, context: TableContext): Read | Promise<Read>;
  /** Fills the values that follow from other keys, so that operators see them. */
  fill?(keys: Complete<Output<Keys>>, core: FilledTables): Complete<Output<Keys>>;
  /** Completes keys without mistakes. */
  complete(keys: Complete<Output<Keys>>, read: Awaited<Read>): Own;
  /** Returns the address that the part listens on. */
  listener?(keys: Checked<Output<Keys>>): TableListener | undefined;
  /** Summarises the table in a few words: `push targets: 2`. Undefined if there is nothing to summarise. */
  summary?(own: Own): string | undefined;
  /**
   * Returns true if, for a configured token, the part adds a token whose payers can be charged less than they signed.
   */
  chargesPart?(token: TokenTable): boolean;
  /** Returns tokens that the part offers in addition to the configured tokens. */
  tokensBeside?(own: Own, tokens: readonly AcceptedToken[]): readonly AcceptedToken[];
}

/** A table of the configuration, or keys of a table, that a part adds. */
export class ConfigTable<Own = unknown> implements PartTable {
  /** Table that has the keys, spelled as in the schema. */
  readonly parent: readonly string[];
  readonly keys: z.ZodRawShape;
  readonly #declaration: Declaration<z.ZodRawShape, Own, unknown>;

  private constructor(declaration: Declaration<z.ZodRawShape, Own, unknown>) {
    this.parent = declaration.in ?? [];
    this.keys = declaration.keys;
    this.#declaration = declaration;
  }

  static of<Keys extends z.ZodRawShape, Own, Read = undefined>(
    declaration: Declaration<Keys, Own, Read>,
  ): ConfigTable<Own> {
    return new ConfigTable(declaration as unknown as Declaration<z.ZodRawShape, Own, unknown>);
  }

  get paths(): readonly string[] {
    return Object.keys(this.keys).map((key) => [...this.parent, key].map(fileKey).join("."));
  }

  get gives(): GivenAbility | undefined {
    return this.#declaration.gives;
  }

  get accounts(): AccountKeys | undefined {
    return this.#declaration.accounts;
  }

  /** Returns true if a file has one of these keys. */
  isGivenIn(tables: object): boolean {
    return Object.keys(this.keysIn(tables) ?? {}).length > 0;
  }

  /** Returns the table in a configuration; undefined if the configuration lacks the table that contains the keys. */
  in(config: { readonly parts: PartTables }): Own | undefined {
    return config.parts.get(this) as Own | undefined;
  }

  /**
   * Returns true if, for a configured token, the part adds a token whose payers can be charged less than they signed.
   */
  chargesPart(token: TokenTable): boolean {
    return this.#declaration.chargesPart?.(token) ?? false;
  }

  /** Returns the keys in the tables of a file; undefined if the file lacks the table that contains the keys. */
  keysIn(tables: object): object | undefined {
    const parent = this.parent.reduce<Table | undefined>(
      (table, key) => table?.[key] as Table,
      tables as Table,
    );
    return parent && pick(parent, this.keys);
  }

  /** Returns the tables of a file with the values of the keys that follow from other keys. */
  fillIn<Tables extends FilledTables>(tables: Tables): Tables {
    const { fill } = this.#declaration;
    const filled = (table: Table) => ({ ...table, ...fill?.(pick(table, this.keys) as never, tables) });
    return changeAt(tables, this.parent, filled);
  }

  /** Returns the tables of a file without the keys. */
  leaveOut<Tables extends object>(tables: Tables): Tables {
    return changeAt(tables, this.parent, (table) => omit(table, this.keys));
  }

  /** Reports the mistakes of keys that {@link keysIn} returned. */
  async check(keys: object, context: Omit<TableContext, "place">): Promise<unknown> {
    const place = context.mistakes.at(...this.parent.map(fileKey));
    return this.#declaration.check?.(keys as never, { ...context, place });
  }

  /** Returns the address that the part listens on with keys that {@link keysIn} returned. */
  listener(keys: object): TableListener | undefined {
    return this.#declaration.listener?.(keys as never);
  }

  /** @param read what {@link check} returned */
  complete(keys: object, read?: unknown): Own {
    return this.#declaration.complete(keys as never, read as never);
  }

  summary(own: unknown): string | undefined {
    return own === undefined ? undefined : this.#declaration.summary?.(own as Own);
  }

  tokensBeside<Token>(own: unknown, tokens: readonly Token[]): readonly Token[] {
    const beside = this.#declaration.tokensBeside?.(
      own as Own,
      tokens as readonly unknown[] as readonly AcceptedToken[],
    );
    return (beside ?? []) as readonly unknown[] as readonly Token[];
  }
}

/** Completes the tables of parts that a file has. */
export function completeParts(
  ofParts: readonly ConfigTable[],
  tables: object,
  read?: ReadonlyMap<ConfigTable, unknown>,
): PartTables {
  return new Map(
    ofParts.flatMap((table) => {
      const keys = table.keysIn(tables);
      return keys === undefined ? [] : [[table, table.complete(keys, read?.get(table))] as const];
    }),
  );
}

/**
 * Adds the keys of tables to the schema of the core.
 * @throws Error for keys in an array or in a table that does not exist, and for a key that the table has already
 */
export function withTables<Schema extends z.ZodType>(schema: Schema, tables: readonly ConfigTable[]): Schema {
  return tables.reduce((whole, { parent, keys, paths }) => {
    const shape = shapeAt(whole, parent);
    if (shape === undefined)
      throw new Error(
        `a part has ${paths.join(", ")} in what is not a table; expected EntryKeys for an array`,
      );
    const twice = Object.keys(keys).findIndex((key) => key in shape);
    if (twice >= 0)
      throw new Error(`a part has ${paths[twice]}, which is a key already; expected another key`);
    return withKeys(whole, parent, keys) as Schema;
  }, schema);
}

/** Returns the keys of the table at a path; undefined if the path does not lead through tables to a table. */
function shapeAt(schema: z.core.$ZodType | undefined, path: readonly string[]): z.core.$ZodShape | undefined {
  const table = schema && withoutDefault(schema);
  if (!(table instanceof z.ZodObject)) return undefined;
  const [name, ...rest] = path;
  return name === undefined ? table.shape : shapeAt(table.shape[name], rest);
}

/** @param path tables and arrays of tables that contain the keys */
export function withKeys(schema: z.core.$ZodType, path: readonly string[], keys: z.ZodRawShape): z.ZodType {
  // A clone keeps the notes of the schema if the schema is the clone's parent.
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    const innerType = withKeys(schema.unwrap(), path, keys);
    return schema.clone({ ...schema.def, innerType } as never, { parent: true });
  }
  if (schema instanceof z.ZodArray) {
    const element = withKeys(schema.element, path, keys);
    return schema.clone({ ...schema.def, element }, { parent: true });
  }
  const [name, ...rest] = path;
  if (!(schema instanceof z.ZodObject)) {
    if (name !== undefined) throw new Error("a part adds keys to a value that is no table");
    const text = schema as z.ZodType;
    return z.union([text, z.object(keys)]).describe(`${text.description}, or a table`);
  }
  return schema.extend(
    name === undefined ? keys : { [name]: withKeys(schema.shape[name] as z.ZodType, rest, keys) },
  );
}
