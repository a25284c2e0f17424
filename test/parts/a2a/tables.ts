import type { PartTables } from "../../../src/config/part-tables.ts";
import { a2aTable } from "../../../src/parts/a2a/config.ts";

/** Tables of a shop that sells over A2A. */
export const soldByA2a = (): PartTables => new Map([[a2aTable, { enabled: true as const }]]);
