import type { X402Config } from "../../config/config.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { Services } from "../../x402/services.ts";
import { mcpTable } from "./config.ts";
import { McpRoute } from "./mcp-route.ts";
import { McpServer } from "./mcp-server.ts";
import { Sessions } from "./sessions.ts";

/** MCP at each configuration. Its sessions outlive a reload. */
export class Mcp implements X402Part {
  readonly #services: Services;
  readonly #sessions: Sessions;

  constructor(services: Services) {
    this.#services = services;
    this.#sessions = new Sessions(services.tokens);
  }

  open(x402: X402Config): ShopAddition | undefined {
    const { publicUrl, maxBodyBytes } = x402;
    const config = mcpTable.in(x402);
    if (config === undefined) return undefined;
    const { allowedOrigins } = config;
    const sessions = this.#sessions;
    return {
      feature: { guide: `MCP clients buy each job as a tool of \`${publicUrl}/mcp\`.` },
      pageHeaders: { sent: ["Mcp-Session-Id", "MCP-Protocol-Version"], read: ["Mcp-Session-Id"] },
      routes: (shop) => {
        const server = new McpServer(this.#services, shop);
        const route = new McpRoute({ server, sessions, allowedOrigins, publicUrl, maxBodyBytes });
        return [["/mcp", route.handlers]];
      },
    };
  }
}
