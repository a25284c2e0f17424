import type { Part } from "../../part.ts";
import { mcpTable } from "./config.ts";

/** The jobs for sale as tools of the Model Context Protocol, at `/mcp`. */
export const part: Part = {
  table: mcpTable,
  paths: { x402: ["/mcp", "/mcp/server-card", "/.well-known/mcp/server-card.json", "/.well-known/mcp.json"] },
  async x402(services) {
    const { Mcp } = await import("./mcp.ts");
    return new Mcp(services);
  },
};
