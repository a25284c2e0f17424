/** An optional property has to be left out, not set to undefined. */
export function present<K extends string, V>(key: K, value: V | undefined): { readonly [Key in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { readonly [Key in K]?: V });
}

/** A value that a rule has made sure of. */
export function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("a rule of the configuration let a missing value pass");
  return value;
}
