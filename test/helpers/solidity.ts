import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { Hex } from "viem";

const CACHE = fileURLToPath(new URL("../../node_modules/.cache/solidity/", import.meta.url));

/** Without metadata, whose hash changes with each comment of a source. */
const SETTINGS = {
  optimizer: { enabled: true },
  metadata: { appendCBOR: false },
  outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
};

/** Creation code by contract name. */
export type CompiledContracts = Readonly<Record<string, Hex>>;

interface SolcOutput {
  errors?: { severity: string; formattedMessage: string }[];
  contracts: Record<string, Record<string, { evm: { bytecode: { object: string } } }>>;
}

/**
 * Compiles one file of `contracts/`, which imports nothing. Loading the compiler takes a second, so the outcome is
 * kept until the source or the compiler changes. Throws with the compiler's messages.
 */
export async function compileSolidity(fileName: string): Promise<CompiledContracts> {
  const source = await readFile(new URL(`contracts/${fileName}`, import.meta.url), "utf8");
  const require = createRequire(import.meta.url);
  const { version } = require("solc/package.json") as { version: string };
  const settings = JSON.stringify(SETTINGS);
  const key = createHash("sha256").update([version, settings, source].join("\0")).digest("hex");
  const cached = await readFile(`${CACHE}${key}.json`, "utf8").catch(() => undefined);
  if (cached !== undefined) return JSON.parse(cached) as CompiledContracts;

  const solc = require("solc") as { compile(input: string): string };
  const input = {
    language: "Solidity",
    sources: { [fileName]: { content: source } },
    settings: SETTINGS,
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input))) as SolcOutput;
  const errors = (output.errors ?? []).filter(({ severity }) => severity === "error");
  if (errors.length > 0) throw new Error(errors.map(({ formattedMessage }) => formattedMessage).join("\n"));
  const compiled: CompiledContracts = Object.fromEntries(
    Object.entries(output.contracts[fileName] ?? {}).map(
      ([name, { evm }]) => [name, `0x${evm.bytecode.object}`] as const,
    ),
  );

  // Renamed into place: another test may be reading, or compiling the same file.
  await mkdir(CACHE, { recursive: true });
  const unfinished = `${CACHE}${key}.${randomUUID()}`;
  await writeFile(unfinished, JSON.stringify(compiled));
  await rename(unfinished, `${CACHE}${key}.json`);
  return compiled;
}
