import { rm } from "node:fs/promises";
import { join } from "node:path";
import { need, ROOT, run, WORKSHOP } from "../e2e/workshop.ts";

/** Folder that all crates build in, so that what they depend on is built once. */
export const CARGO_TARGET = join(WORKSHOP, "cargo");
/** Build settings that need the least time. */
const ENV = { CARGO_TARGET_DIR: CARGO_TARGET, CARGO_PROFILE_DEV_DEBUG: "0", CARGO_INCREMENTAL: "0" };

const LIBRARY = join(ROOT, "clients/rust");

/** Runs cargo in a folder. @returns its standard output */
export async function cargo(args: readonly string[], folder = LIBRARY): Promise<string> {
  await need("cargo", ["--version"], "Rust 1.88 or later with cargo, rustfmt and clippy");
  return run("cargo", args, folder, ENV);
}

let packed: Promise<string> | undefined;

/** Packs the crate as for the registry, and unpacks it. @returns its folder */
export function packCrate(): Promise<string> {
  packed ??= pack();
  return packed;
}

async function pack(): Promise<string> {
  const { version } = JSON.parse(await cargo(["read-manifest"])) as { version: string };
  await cargo(["package", "--no-verify", "--allow-dirty"]);
  const name = `jobgate-runner-${version}`;
  await rm(join(WORKSHOP, name), { recursive: true, force: true });
  // Cargo builds what is newer than the last build: files keep no times from the package.
  await run("tar", ["-xmf", join(CARGO_TARGET, "package", `${name}.crate`)], WORKSHOP);
  return join(WORKSHOP, name);
}
