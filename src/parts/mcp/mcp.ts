import type { X402Config } from "../../config/config.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { Services } from "../../x402/services.ts";
import { mcpTable } from "./config.ts";
import { McpRoute } from "./mcp-route.ts";
import { McpServer, WAITS } from "./mcp-server.ts";
import { CARD_PATHS, serverCard } from "./server-card.ts";
import { Sessions } from "./sessions.ts";
import { ToolSales } from "./tool-sales.ts";

/** MCP under the current configuration. Its sessions outlive a reload. */
export class Mcp implements X402Part {
  readonly #services: Services;
  readonly #sessions: Sessions;
  readonly #waits: Readonly<typeof WAITS>;

  constructor(services: Services, waits: Readonly<typeof WAITS> = WAITS) {
    this.#services = services;
    this.#waits = waits;
    this.#sessions = new Sessions(services.tokens);
  }

  open(x402: X402Config): ShopAddition | undefined {
    const { publicUrl, jobs = [] } = x402;
    const maxBodyBytes = Math.max(x402.maxBodyBytes, ...jobs.flatMap((job) => job.maxBodyBytes ?? []));
    const config = mcpTable.in(x402);
    if (config === undefined) return undefined;
    const { allowedOrigins } = config;
    const sessions = this.#sessions;
    const sales = new ToolSales(this.#services.clock);
    return {
      terms: sales,
      feature: {
        guide: `MCP clients buy each job as a tool of \`${publicUrl}/mcp\`.`,
        service: { name: "MCP", endpoint: `${publicUrl}/mcp` },
        links: { mcp: `${publicUrl}/mcp`, mcpServerCard: `${publicUrl}/.well-known/mcp/server-card.json` },
      },
      pageHeaders: {
        sent: ["Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"],
        read: ["Mcp-Session-Id"],
      },
      routes: (shop) => {
        const server = new McpServer({ services: this.#services, shop, sales, waits: this.#waits });
        const route = new McpRoute({ server, sessions, allowedOrigins, publicUrl, maxBodyBytes });
        const card = serverCard(shop.seller);
        return [["/mcp", route.handlers], ...CARD_PATHS.map((path): [string, typeof card] => [path, card])];
      },
    };
  }
}
