import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Refusal } from "../../commands/input.ts";
import { fileErrorText } from "../../config/named-files.ts";
import type { NewConfig } from "./new-config.ts";
import { configText, inputFiles } from "./template.ts";

export function fileExists(file: string): Refusal {
  return new Refusal([
    `${file} exists, and was not changed. Choose another file with --out, or overwrite this one with --force`,
  ]);
}

/**
 * Writes a configuration, and the files that it names.
 * @returns the files: the configuration first
 * @throws Refusal with the reason
 */
export async function writeConfig(
  out: string,
  config: NewConfig,
  { overwrites = false }: { readonly overwrites?: boolean | undefined } = {},
): Promise<readonly string[]> {
  const folder = dirname(out);
  const bodies = (config.api?.routes ?? []).flatMap(({ details }) => {
    const { schema, example } = inputFiles(details);
    return [schema ?? [], example ?? []].flat();
  });
  const files = [{ path: out, text: configText(config) }];
  for (const { path, text } of bodies) files.push({ path: join(folder, path), text });
  const existing = files.find(({ path }) => !overwrites && existsSync(path));
  if (existing !== undefined) throw fileExists(existing.path);
  // The configuration is written last, because it names the other files, and writing them can fail.
  for (const { path, text } of files.toReversed()) {
    if (path !== out) await makeFolder(dirname(path));
    await writeText(path, text, { flag: overwrites ? "w" : "wx" });
  }
  const written = [...new Set(files.map(({ path }) => (path === out ? out : dirname(path))))];
  if (config.webhook !== undefined) {
    const file = join(dirname(out), config.webhook.secretFile);
    if (await writeSecret(file)) written.push(file);
  }
  return written;
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw new Refusal([
      `${folder} cannot be a folder: ${fileErrorText(error)}. Choose a file in another folder with --out`,
    ]);
  }
}

async function writeText(
  file: string,
  text: string,
  options: { readonly flag: string; readonly mode?: number },
): Promise<void> {
  try {
    await writeFile(file, text, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw fileExists(file);
    throw new Refusal([`${file} cannot be written: ${fileErrorText(error)}`]);
  }
}

/** Writes a random secret, which git ignores. @returns false if the file exists, because a sender may use its secret */
async function writeSecret(file: string): Promise<boolean> {
  if (existsSync(file)) return false;
  const folder = dirname(file);
  const isNew = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (isNew !== undefined) await writeText(join(folder, ".gitignore"), "*\n", { flag: "wx" });
  await writeText(file, `${randomBytes(32).toString("base64url")}\n`, { flag: "wx", mode: 0o600 });
  return true;
}
