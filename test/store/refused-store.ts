import { expect } from "vitest";
import { runHereWith } from "../commands/operator-commands.ts";
import { runJobgate } from "../commands/run-jobgate.ts";

/** Versions of stores that unreleased programs wrote. */
export const UNRELEASED_VERSIONS = [1, 22, 100];

export const unreleased = (version: number) =>
  `an unreleased jobgate wrote this store (schema version ${version}): start with a new store`;

export const otherParts = (tables: string) =>
  `this build lacks the parts of jobgate that wrote the rows of ${tables}: start a build with these parts, or delete the rows if you do not need them`;

/** Refusal of a store of an unreleased jobgate, which kept no first outcomes of channels. */
export const LACKS_TABLES =
  "an unreleased jobgate wrote this store: it has the table channels, but lacks channel_deposits and channel_refunds: start with a new store";

/**
 * Checks that a command that opens the store is refused with a reason.
 * @param folder for a copy of the store; given, each command that opens it is checked, and `serve`
 */
export async function expectRefusal(url: string, reason: string, folder?: string): Promise<void> {
  const others = [
    ["serve"],
    ["check", "--online"],
    ["store", "check"],
    ["store", "backup", `${folder}/copy.db`],
  ];
  const commands = [["store", "info"], ...(folder === undefined ? [] : others)];
  const toml = `[store]\nurl = "env:STORE"\n[runner]\nbind_address = "127.0.0.1:0"\n`;
  for (const command of commands) {
    const run = command[0] === "serve" ? runJobgate : runHereWith;
    const { code, stdout, stderr } = await run(command, {
      files: { "jobgate.toml": toml },
      env: { STORE: url },
    });
    expect(code, command.join(" ")).toBe(1);
    expect(`${stdout}${stderr}`.trimEnd().split("\n"), command.join(" ")).toContainEqual(
      expect.stringContaining(reason),
    );
  }
}
