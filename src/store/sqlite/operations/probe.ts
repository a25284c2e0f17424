import type { Database } from "../driver.ts";

/** The smallest durable write: shows whether the store can write again. */
export function probeOperations(database: Database) {
  const write = database.prepare("UPDATE probe SET writes = writes + 1");
  return {
    probe(): null {
      write.run([]);
      return null;
    },
  };
}
