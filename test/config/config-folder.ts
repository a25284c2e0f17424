import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../src/config/config.ts";
import { type LoadConfigResult, loadConfigWith } from "../../src/config/load-config.ts";
import { partKeys } from "../../src/load-parts.ts";

/** Token of a gateway that loads without mistakes. */
export const TOKEN = `[[x402.accepted_tokens]]
network = "eip155:84532"
asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
symbol = "USDC"
decimals = 6
pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
rate_per_native_unit = "3200.00"
transfer_method = "eip3009"
eip3009_name = "USDC"
eip3009_version = "2"
`;
export const X402 = `[x402]
facilitator_url = "https://facilitator.example.com"
public_url = "https://operator.example.com"
`;

/** A build without parts. */
export const NO_PARTS = {
  tables: [],
  entries: [],
  methods: [],
  charges: [],
  paths: [],
  abilities: new Set<string>(),
};

/** Configuration keys and abilities of this build's parts, and the ability to restrict jobs, whose keys the core has. */
const PARTS = { ...partKeys(), abilities: new Set([...partKeys().abilities, "restricted jobs"]) };

/** Loads a configuration from real files in a temporary folder. */
export async function loadFiles(
  files: string | Record<string, string | Uint8Array>,
  options: { env?: NodeJS.ProcessEnv; serviceId?: bigint } = {},
): Promise<LoadConfigResult> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-config-"));
  try {
    const byName = typeof files === "string" ? { "jobgate.toml": files } : files;
    for (const [name, contents] of Object.entries(byName))
      await writeFile(
        join(folder, name),
        typeof contents === "string" ? contents.replaceAll("$DIR", folder) : contents,
      );
    const path = join(folder, "jobgate.toml");
    const result = await loadConfigWith(PARTS, { path, env: {}, ...options });
    if (result.ok) return result;
    return {
      ok: false,
      mistakes: result.mistakes.map((m) => ({ ...m, file: m.file.replace(`${folder}/`, "") })),
    };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Loads files that must have no mistake. */
export async function configOf(
  toml: Parameters<typeof loadFiles>[0],
  options?: { serviceId?: bigint },
): Promise<Config> {
  const result = await loadFiles(toml, options);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return result.config;
}

/** Mistakes in files as `file:line key.path`, with their messages. */
export async function mistakesOf(
  files: string | Record<string, string>,
  options: { env?: NodeJS.ProcessEnv } = {},
): Promise<{ place: string; message: string; suggestion?: string }[]> {
  const result = await loadFiles(files, options);
  if (result.ok) return [];
  return result.mistakes.map(({ file, line, keyPath, message, suggestion }) => ({
    place: `${file}${line === undefined ? "" : `:${line}`} ${keyPath}`,
    message,
    ...(suggestion === undefined ? {} : { suggestion }),
  }));
}
