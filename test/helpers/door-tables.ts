import type { PartTables } from "../../src/config/part-tables.ts";
import { mcpTable } from "../../src/parts/mcp/config.ts";
import { type MppConfig, mppTable } from "../../src/parts/mpp/config.ts";

const MPP: MppConfig = { realm: "shop", secretKeys: ["key"], challengeTtlSecs: 60 };

/** Tables of a shop that sells over MPP. */
export const soldByMpp = (change: Partial<MppConfig> = {}): PartTables =>
  new Map([[mppTable, { ...MPP, ...change }]]);

/** Tables of a shop that sells over MCP. */
export const soldByMcp = (): PartTables => new Map([[mcpTable, { allowedOrigins: [] }]]);

/** Tables of a shop that sells over both. */
export const soldByBoth = (mpp?: Partial<MppConfig>): PartTables =>
  new Map([...soldByMpp(mpp), ...soldByMcp()]);
