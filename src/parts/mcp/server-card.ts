import { isIP } from "node:net";
import { fileHandler } from "../../http/page-files.ts";
import type { MethodHandlers } from "../../http/routes.ts";
import { version } from "../../node/version.ts";
import type { Seller } from "../../x402/jobs/seller.ts";
import { PROTOCOL_VERSIONS } from "./stateless.ts";

/** Paths of the card: the path that SEP-2127 recommends, and two paths at which registries looked before SEP-2127. */
export const CARD_PATHS = ["/mcp/server-card", "/.well-known/mcp/server-card.json", "/.well-known/mcp.json"];

const SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";
/** Longest description that the schema accepts. */
const MAX_DESCRIPTION = 100;

/** Returns the handlers of the MCP server card (SEP-2127), which says where the server is before a client connects. */
export function serverCard({ publicUrl, title, logo, guidance }: Seller): MethodHandlers {
  const description = guidance?.trim().split("\n")[0] ?? "Sells runs of jobs for payments over x402.";
  const card = {
    $schema: SCHEMA,
    name: `${reversedHost(publicUrl)}/mcp`,
    version,
    title,
    description:
      description.length > MAX_DESCRIPTION ? `${description.slice(0, MAX_DESCRIPTION - 1)}…` : description,
    websiteUrl: `${publicUrl}/`,
    ...(logo !== undefined && { icons: [{ src: logo }] }),
    remotes: [
      { type: "streamable-http", url: `${publicUrl}/mcp`, supportedProtocolVersions: PROTOCOL_VERSIONS },
    ],
  };
  const answer = fileHandler(JSON.stringify(card), "application/json", {
    "cache-control": "public, max-age=300",
  });
  return { GET: answer, HEAD: answer };
}

/** Returns the host of a URL as names of servers have it: `com.example.shop`. */
function reversedHost(url: string): string {
  const { hostname } = new URL(url);
  const isAddress = isIP(hostname) !== 0 || hostname.startsWith("[");
  return isAddress ? hostname.replace(/[[\]:]+/g, "-") : hostname.split(".").reverse().join(".");
}
