import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A built jobgate to measure. */
export interface Tree {
  /** Name in tables. */
  readonly name: string;
  /** Folder with its `dist`; undefined for this checkout. */
  readonly folder?: string;
}

export const THIS_TREE: Tree = { name: "jobgate" };

/** Builds another commit in a temporary worktree, passes it to `use` beside this checkout, and removes it. */
export async function compareWith(
  ref: string,
  use: (trees: readonly Tree[]) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-bench-"));
  const run = (command: string, args: readonly string[], cwd?: string) =>
    execFileSync(command, args, {
      stdio: ["ignore", "ignore", "inherit"],
      ...(cwd === undefined ? {} : { cwd }),
    });
  try {
    console.log(`Building ${ref} …`);
    run("git", ["worktree", "add", "--detach", folder, ref]);
    // npm ci builds dist too.
    run("npm", ["ci", "--no-audit", "--no-fund"], folder);
    await use([THIS_TREE, { name: ref, folder }]);
  } finally {
    run("git", ["worktree", "remove", "--force", folder]);
    await rm(folder, { recursive: true, force: true });
  }
}
