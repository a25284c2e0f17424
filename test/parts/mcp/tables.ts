import type { PartTables } from "../../../src/config/part-tables.ts";
import { mcpTable } from "../../../src/parts/mcp/config.ts";

/** Tables of a shop that sells over MCP. */
export const soldByMcp = (): PartTables => new Map([[mcpTable, { allowedOrigins: [] }]]);
