import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { copySources, MADE, need, ROOT, run, WORKSHOP } from "./workshop.ts";

/** Folder of uv, a program that installs packages with a tenth of pip's CPU. */
const FOLDER = join(WORKSHOP, "uv");
const UV = join(FOLDER, "bin/uv");
const SETTINGS = join(FOLDER, "uv.toml");
/** Settings of pip that uv does not read, and whether uv has a list of them. */
const SETTINGS_OF_PIP = { "index-url": false, "extra-index-url": true, "find-links": true } as const;

/** Installs uv by pip, with pip's settings. Called by test/full-setup.ts, because several files use uv at once. */
export async function prepareUv(): Promise<void> {
  if (existsSync(SETTINGS)) return;
  await need("python3", ["-m", "venv", "--help"], "Python 3.10 or later with venv");
  await mkdir(FOLDER, { recursive: true });
  await run("python3", ["-m", "venv", "."], FOLDER);
  const pip = (...args: string[]) => run(join(FOLDER, "bin/python"), ["-m", "pip", ...args], FOLDER);
  await pip("install", "--quiet", "uv==0.13.9");
  const known = await pip("config", "list");
  const lines = Object.entries(SETTINGS_OF_PIP).flatMap(([name, isList]) => {
    const value = new RegExp(`\\.${name}='(.*)'$`, "m").exec(known)?.[1];
    if (value === undefined) return [];
    return [`${name} = ${JSON.stringify(isList ? value.split(/\s+/) : value)}\n`];
  });
  await writeFile(SETTINGS, ["native-tls = true\n", ...lines].join(""));
}

/** Creates a virtual environment in a folder, or finds it. @returns its Python */
export async function createVenv(folder: string): Promise<string> {
  await uv(["venv", "--quiet", "--allow-existing", "--python", "python3", ".venv"], folder);
  return join(folder, ".venv/bin/python");
}

/** Installs packages, as arguments of pip name them, for a virtual environment's Python. */
export async function installPackages(
  python: string,
  packages: readonly string[],
  cwd: string,
): Promise<void> {
  await uv(["pip", "install", "--quiet", "--python", python, ...packages], cwd);
}

/** Builds the wheel of the package in a folder, into its folder `dist`. */
export async function buildWheel(folder: string): Promise<void> {
  await uv(["build", "--quiet", "--wheel"], folder);
}

async function uv(args: readonly string[], cwd: string): Promise<void> {
  const { PIP_CERT } = process.env;
  await run(UV, args, cwd, {
    UV_CONFIG_FILE: SETTINGS,
    UV_PYTHON_DOWNLOADS: "never",
    ...(PIP_CERT && { SSL_CERT_FILE: PIP_CERT }),
  });
}

/**
 * A Python example with its dependencies installed, and the messages of a .proto generated. One that several files use is
 * prepared before them, by test/full-setup.ts: they only find it.
 */
export async function preparePython(name: string, proto?: string): Promise<{ python: string; cwd: string }> {
  const cwd = join(WORKSHOP, "examples", name);
  const prepared = { python: join(cwd, ".venv/bin/python"), cwd };
  const note = join(cwd, ".venv/prepared");
  const sources = await textOf([join(ROOT, "examples", name), join(ROOT, "proto")]);
  if ((await readFile(note, "utf8").catch(() => "")) === sources) return prepared;

  await copyExample(name);
  const python = await createVenv(cwd);
  await installPackages(python, ["-r", "requirements.txt"], cwd);
  const out = ["--python_out=.", "--grpc_python_out=."];
  if (proto !== undefined)
    await run(python, ["-m", "grpc_tools.protoc", "-I", "../../proto", ...out, proto], cwd);
  await writeFile(note, sources);
  return prepared;
}

/** Returns the names and contents of all files in folders, without what was installed or built there. */
async function textOf(folders: readonly string[]): Promise<string> {
  const texts: string[] = [];
  for (const folder of folders) {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const paths = entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
    const isSource = (path: string) => !MADE.some((made) => path.startsWith(join(folder, made)));
    for (const path of paths.filter(isSource).sort()) texts.push(path, await readFile(path, "utf8"));
  }
  return texts.join("\n");
}

/** Copies an example beside a copy of the .proto, as far apart as the originals are. */
async function copyExample(name: string): Promise<string> {
  await copySources(join(ROOT, "proto"), join(WORKSHOP, "proto"));
  const folder = join(WORKSHOP, "examples", name);
  await copySources(join(ROOT, "examples", name), folder);
  return folder;
}
