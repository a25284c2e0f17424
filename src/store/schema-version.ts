/** Number of the first released schema. Unreleased programs numbered their schemas from 1, and the last of them wrote 100. */
const FIRST_VERSION = 101;

/** Returns the number of the schema that all migrations together make. */
export function newestVersion(migrations: readonly string[]): number {
  return FIRST_VERSION + migrations.length - 1;
}

/** Returns the migrations that a store lacks. @param version 0 for a store without tables */
export function missingMigrations(migrations: readonly string[], version: number): readonly string[] {
  return migrations.slice(version === 0 ? 0 : version - FIRST_VERSION + 1);
}

/**
 * @param oldest schema version of the oldest jobgate that can use the store
 * @throws Error for a store of a newer jobgate that this one cannot use
 */
export function refuseNewer(migrations: readonly string[], version: number, oldest = version): void {
  const newest = newestVersion(migrations);
  if (oldest <= newest) return;
  throw new Error(
    `a newer jobgate wrote this store (schema version ${version}, this jobgate knows ${newest}): start that one`,
  );
}

/** @throws Error for a store of a jobgate that was never released */
export function refuseUnreleased(version: number): void {
  if (version === 0 || version >= FIRST_VERSION) return;
  throw new Error(
    `an unreleased jobgate wrote this store (schema version ${version}): start with a new store`,
  );
}

/** @throws Error for a store that another version of jobgate made, which this jobgate cannot read as it is */
export function requireNewest(migrations: readonly string[], version: number, place: string): void {
  const newest = newestVersion(migrations);
  if (version === newest) return;
  const migrates = version > newest ? "" : ", or serve it with this jobgate first";
  throw new Error(
    `${place} was made by another version of jobgate: it has schema version ${version}, and this jobgate reads version ${newest}. Use the jobgate that serves it${migrates}`,
  );
}
