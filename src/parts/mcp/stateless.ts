import * as z from "zod";
import type { HttpRequest } from "../../http/request.ts";
import { paramsAs, RpcError, type RpcMessage } from "../../x402/protocols/json-rpc.ts";

/** The version of MCP without sessions: each message names its version, and what its client can do. */
const STATELESS_VERSION = "2026-07-28";
/** Versions with sessions, newest first. */
export const SESSION_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26"];
export const PROTOCOL_VERSIONS = [STATELESS_VERSION, ...SESSION_VERSIONS];

const PREFIX = "io.modelcontextprotocol/";
const VERSION = `${PREFIX}protocolVersion`;
const CAPABILITIES = `${PREFIX}clientCapabilities`;
const SERVER = `${PREFIX}serverInfo`;
/** Name of the extension for calls whose outcome a client queries later. */
const TASKS = `${PREFIX}tasks`;

const CODES = { headerMismatch: -32020, missingCapability: -32021, unsupportedVersion: -32022 };

/** Parameters that the header `Mcp-Name` repeats, by method. */
const NAMES: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

const capabilitiesSchema = z.object({ extensions: z.record(z.string(), z.unknown()).optional() });

/** Extensions, as a server announces them. */
export const EXTENSIONS = { [TASKS]: {} };

/**
 * Limits on the time for which lists may be cached, and on who may cache them. Prices may change at any time, but a 402
 * has the current price.
 */
export const CACHING = { ttlMs: 60_000, cacheScope: "public" };

/** Abilities of a client, as its message names them. */
export interface StatelessClient {
  readonly takesTasks: boolean;
}

/**
 * Reads which abilities of its client a message names.
 * @returns undefined for a message of a version with sessions
 * @throws RpcError if the message lacks a field that the version requires, or contradicts its headers
 */
export function statelessClient(message: RpcMessage, request: HttpRequest): StatelessClient | undefined {
  const { method, params, meta } = message;
  const { [VERSION]: version, [CAPABILITIES]: capabilities } = meta;
  if (version === undefined && request.headers["mcp-protocol-version"] !== STATELESS_VERSION)
    return undefined;
  const wanted = paramsAs(z.string(), version, `_meta["${VERSION}"]`);
  expectHeader(request, "MCP-Protocol-Version", wanted);
  if (wanted !== STATELESS_VERSION) {
    const data = { supported: PROTOCOL_VERSIONS, requested: wanted };
    throw new RpcError(CODES.unsupportedVersion, "Unsupported protocol version", data);
  }
  expectHeader(request, "Mcp-Method", method);
  const name = Object.hasOwn(NAMES, method) ? params[NAMES[method] as string] : undefined;
  if (typeof name === "string") expectHeader(request, "Mcp-Name", name);
  const { extensions } = paramsAs(capabilitiesSchema, capabilities, `_meta["${CAPABILITIES}"]`);
  const takesTasks = extensions?.[TASKS] !== undefined;
  if (takesTasks || !method.startsWith("tasks/")) return { takesTasks };
  const data = { requiredCapabilities: { extensions: EXTENSIONS } };
  throw new RpcError(
    CODES.missingCapability,
    `${method} is for clients that have the extension ${TASKS}.`,
    data,
  );
}

/** Refuses a message whose header differs, because a proxy may have routed the message by the header. */
function expectHeader({ headers }: HttpRequest, name: string, expected: string): void {
  const { [name.toLowerCase()]: sent } = headers;
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(String(sent)) ?? [];
  const value = encoded === undefined ? sent : Buffer.from(encoded, "base64").toString();
  if (value === expected) return;
  const found = sent === undefined ? "is missing" : `is ${JSON.stringify(sent)}`;
  throw new RpcError(
    CODES.headerMismatch,
    `The header ${name} ${found}, and the message has ${JSON.stringify(expected)}.`,
  );
}

/** Adds the fields that each result has: its type, and the server that made it. */
export function statelessResult(result: object, server: object): object {
  const { _meta: meta } = result as { readonly _meta?: object };
  return { resultType: "complete", ...result, _meta: { ...meta, [SERVER]: server } };
}
