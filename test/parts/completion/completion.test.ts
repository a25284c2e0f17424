import { execFile, spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { runHere } from "../../commands/operator-commands.ts";
import { testFolder } from "../../helpers/test-folder.ts";

/** Commands that print what a shell completes after a script is read, one word on a line; of zsh, only its syntax. */
const COMPLETING: Record<string, (words: string) => string> = {
  bash: (words) =>
    `source ./script; COMP_WORDS=(${words.replace(/ $/, " ''")}); COMP_CWORD=$((\${#COMP_WORDS[@]}-1)); _jobgate; printf '%s\\n' "\${COMPREPLY[@]}"`,
  fish: (words) => `source ./script; complete -C '${words}' | string split -f1 \\t`,
  zsh: () => "",
};
const installed = Object.keys(COMPLETING).filter((shell) => spawnSync(shell, ["-c", "true"]).status === 0);

async function scriptFor(shell: string): Promise<string> {
  const { code, stdout } = await runHere("completion", shell);
  expect(code).toBe(0);
  return stdout;
}

describe("jobgate completion", () => {
  test.each(Object.keys(COMPLETING))(
    "Prints a script for %s with every command and its options",
    async (shell) => {
      const script = await scriptFor(shell);
      const { stdout: help } = await runHere("--help");
      const commands = [...help.matchAll(/^ {2}([a-z-]+) \[options\]/gm)].map(([, name = ""]) => name);
      expect(commands).toContain("pay");
      for (const word of [...commands, "retry", "unresolved", "key-file"]) expect(script).toContain(word);
    },
  );

  test.each(installed)("%s reads its script, and completes from it", async (shell) => {
    const cwd = await testFolder();
    await writeFile(join(cwd, "script"), await scriptFor(shell));
    await promisify(execFile)(shell, ["-n", "script"], { cwd });
    const complete = async (words: string) => {
      const line = COMPLETING[shell]?.(words) ?? "";
      const { stdout } = await promisify(execFile)(shell, ["-c", line], { cwd });
      return stdout
        .split("\n")
        .filter((word) => word !== "")
        .sort();
    };
    if (shell === "zsh") return;
    expect(await complete("jobgate pay")).toEqual(["pay", "payments"]);
    expect(await complete("jobgate payments list --state ")).toEqual([
      "authorized",
      "failed",
      "intent",
      "released",
      "settled",
      "settling",
      "unresolved",
    ]);
    expect(await complete("jobgate completion ")).toEqual(expect.arrayContaining(["bash", "fish", "zsh"]));
    expect(await complete("jobgate run-each --conc")).toEqual(["--concurrency"]);
  });

  test("Refuses another shell", async () => {
    expect(await runHere("completion", "tcsh")).toMatchObject({ code: 2, stdout: "" });
  });
});
