import { execFile } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { createVenv, installPackages } from "../e2e/python.ts";
import { copySources, ROOT, WORKSHOP } from "../e2e/workshop.ts";
import type { TestAccount } from "../helpers/accounts.ts";

/** A request that every client can send. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly form?: { readonly name: string; readonly text: string; readonly title: string };
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Official clients, by the name under which the programs know them. */
export const CLIENTS = ["fetch", "axios", "httpx", "requests", "mppx", "mcp"] as const;
export type ClientName = (typeof CLIENTS)[number];

const AGENTS = join(ROOT, "test/interop/agents");
const PYTHON = join(WORKSHOP, "interop-python");
const VENV = join(PYTHON, ".venv/bin/python");

/** Installs the clients of Python. Those of Node are installed by test/full-setup.ts. */
export async function preparePythonClients(): Promise<void> {
  await copySources(join(ROOT, "test/interop/python"), PYTHON);
  const python = await createVenv(PYTHON);
  await installPackages(python, ["-r", "requirements.txt"], PYTHON);
}

/** Sends requests with an official client, one after the other. */
export async function sendBy(
  client: ClientName,
  from: {
    readonly url: string;
    readonly account: Pick<TestAccount, "privateKey">;
    /** Set for an account of Solana. */
    readonly solanaRpcUrl?: string;
  },
  requests: readonly ApiRequest[],
): Promise<readonly ApiAnswer[]> {
  const isPython = client === "httpx" || client === "requests";
  const [command, program] = isPython ? [VENV, "buy.py"] : [process.execPath, "buy.mjs"];
  const child = spawnTethered({
    ...{ command, args: [program, client, from.url], cwd: isPython ? PYTHON : AGENTS },
    env: {
      ...process.env,
      ...(from.solanaRpcUrl && { SOLANA_RPC_URL: from.solanaRpcUrl }),
      ...{ KEY: from.account.privateKey, REQUESTS: JSON.stringify(requests) },
    },
  });
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const told = out.split("\n").filter(Boolean);
  if (told.length !== requests.length)
    throw new Error(`${client} got ${told.length} answers for ${requests.length} requests:\n${errors}`);
  return told.map((line) => {
    const { status, headers, body } = JSON.parse(line);
    return { status, headers, body: Buffer.from(body, "base64") };
  });
}

/** A request for `fetch`. */
export function initOf({ method, headers = {}, json, form }: ApiRequest): RequestInit {
  if (form === undefined) {
    const type = json === undefined ? {} : { "content-type": "application/json" };
    return {
      method,
      headers: { ...type, ...headers },
      body: json === undefined ? null : JSON.stringify(json),
    };
  }
  const body = new FormData();
  body.append("file", new Blob([form.text]), form.name);
  body.append("title", form.title);
  return { method, headers, body };
}

/** Buys the first tool of an MCP server, by the official clients of Python. @param mode of the MCP client: `legacy`, or a version */
export async function buyTool(
  { mode, url, body }: Readonly<Record<"mode" | "url" | "body", string>>,
  { privateKey }: Pick<TestAccount, "privateKey">,
): Promise<unknown> {
  const env = { ...process.env, KEY: privateKey };
  const { stdout } = await promisify(execFile)(VENV, ["buy_tool.py", mode, url, body], { env, cwd: PYTHON });
  return JSON.parse(stdout);
}
