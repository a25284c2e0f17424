import { expect, it } from "vitest";
import { version } from "../../../src/node/version.ts";
import { startAnotherGateway } from "../../x402/gateway-harness.ts";
import { soldByMcp } from "./tables.ts";

const PATHS = ["/mcp/server-card", "/.well-known/mcp/server-card.json", "/.well-known/mcp.json"];

it("The server card says who sells, and where clients of which versions connect", async () => {
  const shop = await startAnotherGateway({
    config: {
      parts: soldByMcp(),
      publicUrl: "https://shop.example.com/jobs",
      title: "The shop",
      logo: "https://shop.example.com/logo.png",
      guidance: `${"Ask for one text. ".repeat(9)}\nAnd no more.`,
    },
  });
  for (const path of PATHS) {
    const response = await fetch(shop.url + path);
    expect([response.status, response.headers.get("cache-control")]).toEqual([200, "public, max-age=300"]);
    expect(await response.json()).toEqual({
      $schema: "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
      name: "com.example.shop/mcp",
      version,
      title: "The shop",
      description: expect.stringMatching(/^Ask for one text\. .{0,81}…$/),
      websiteUrl: "https://shop.example.com/jobs/",
      icons: [{ src: "https://shop.example.com/logo.png" }],
      remotes: [
        {
          type: "streamable-http",
          url: "https://shop.example.com/jobs/mcp",
          supportedProtocolVersions: ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
        },
      ],
    });
  }
  const { links } = (await (await fetch(`${shop.url}/`)).json()) as { readonly links: object };
  expect(links).toMatchObject({
    mcpServerCard: "https://shop.example.com/jobs/.well-known/mcp/server-card.json",
  });
});

it("A server at an address has it in its name, and no card is there without MCP", async () => {
  const config = { publicUrl: "http://[::1]:8402", parts: soldByMcp() };
  const card = await (await fetch(`${(await startAnotherGateway({ config })).url}${PATHS[0]}`)).json();
  expect(card).toMatchObject({ name: "-1-/mcp", description: "Sells runs of jobs for payments over x402." });
  const without = await startAnotherGateway();
  for (const path of PATHS) expect((await fetch(without.url + path)).status).toBe(404);
});
