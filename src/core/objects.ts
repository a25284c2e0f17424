type PresentKeys<T> = { [Key in keyof T]-?: undefined extends T[Key] ? never : Key }[keyof T];

/** Fields that are never undefined: a field that could be undefined becomes optional. */
type Defined<T> = Pick<T, PresentKeys<T>> & {
  [Key in Exclude<keyof T, PresentKeys<T>>]?: Exclude<T[Key], undefined>;
};

/**
 * Leaves out fields that are undefined. Messages need this, and types whose optional fields are either absent or not
 * undefined.
 */
export function defined<T extends object>(fields: T): Defined<T> {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<T>;
}

/** Builds a map from the entries of several sources. @throws Error if two sources have one key */
export function distinct<Value>(
  what: string,
  entries: Iterable<readonly [key: string, value: Value]>,
): ReadonlyMap<string, Value> {
  const map = new Map<string, Value>();
  for (const [key, value] of entries) {
    if (map.has(key)) throw new Error(`two parts of this build have the ${what} ${key}; expected one`);
    map.set(key, value);
  }
  return map;
}

/** Merges several objects into one. @throws Error if two objects have one field */
export function joined<Whole extends object>(what: string, objects: readonly Whole[]): Whole {
  return Object.fromEntries(
    distinct(
      what,
      objects.flatMap((object) => Object.entries(object)),
    ),
  ) as Whole;
}

/** Parses JSON. @returns undefined for any other text */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns true for an object that is not an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reports whether arrays and objects are nested more than `levels` deep. */
export function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  for (const key in value)
    if (isNestedDeeper((value as Readonly<Record<string, unknown>>)[key], levels - 1)) return true;
  return false;
}
