import * as z from "zod";
import { ConfigTable } from "../../config/config-table.ts";
import { trueOrFalse } from "../../config/value-types.ts";
import { webOrigin } from "../../config/web-types.ts";

const mcp = z.object({
  enabled: trueOrFalse().default(false),
  /** Origins of web pages that may use the server, besides the origin of `publicUrl`. */
  allowedOrigins: z
    .array(webOrigin())
    .describe('an array of origins, such as ["https://agent.example"], or ["*"]')
    .default([]),
});

export interface McpConfig {
  readonly allowedOrigins: readonly string[];
}

/** `[mcp]`. Undefined while `enabled` is false. */
export const mcpTable = ConfigTable.of({
  keys: { mcp: mcp.optional() },
  check(keys, { tables, place }) {
    if (keys.mcp !== undefined && tables.x402 === undefined)
      place.at("mcp").warn("is not used, because there is no [x402]");
  },
  complete: ({ mcp: table }): McpConfig | undefined =>
    table?.enabled ? { allowedOrigins: table.allowedOrigins } : undefined,
});
