import type { PartTables } from "../../src/config/part-tables.ts";
import { type MppConfig, mppTable } from "../../src/parts/mpp/config.ts";
import { soldByMcp } from "../parts/mcp/tables.ts";

const MPP: MppConfig = { realm: "shop", secretKeys: ["key"], challengeTtlSecs: 60 };

/** Tables of a shop that sells over MPP. */
export const soldByMpp = (change: Partial<MppConfig> = {}): PartTables =>
  new Map([[mppTable, { ...MPP, ...change }]]);

/** Tables of a shop that sells over both. */
export const soldByBoth = (mpp?: Partial<MppConfig>): PartTables =>
  new Map([...soldByMpp(mpp), ...soldByMcp()]);
