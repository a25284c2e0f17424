import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { makeProgram } from "../../src/commands/program.ts";
import { ROOT } from "../helpers/bundle.ts";

/*
 * Makes the tables of docs/operator-api.md of operator.proto and of the commands. `npm run generate:docs` writes them.
 */

const PAGE = join(ROOT, "docs/operator-api.md");
/** An option that so many commands have is printed once for all of them. */
const COMMON_AT = 20;

function row(...cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

function linesOfTable(head: readonly string[], rows: readonly string[]): string {
  return [row(...head), `|${"---|".repeat(head.length)}`, ...rows].join("\n");
}

/** Returns the text of a comment of the proto as one line. */
function textOf(comment: string): string {
  return comment
    .replaceAll(/^ *\/\/ ?/gm, "")
    .trim()
    .replaceAll(/\s+/g, " ");
}

/** Returns the names of a message's own fields. */
function fieldsOf(proto: string, message: string): string {
  const [, body = ""] = new RegExp(`^message ${message} \\{\\n([\\s\\S]*?)^\\}`, "m").exec(proto) ?? [];
  const own = [...body.matchAll(/^ {2}(?: {2})?(?:optional |repeated )?[\w.]+ (\w+) = \d+/gm)];
  return own.map(([, name]) => `\`${name}\``).join(" ");
}

function methodTable(): string {
  const proto = readFileSync(join(ROOT, "proto/jobgate/v1/operator.proto"), "utf8");
  const methods = proto.matchAll(/((?:^ {2}\/\/.*\n)+) {2}rpc (\w+)\((\w+)\)/gm);
  const rows = [...methods].map(([, comment = "", name = "", request = ""]) =>
    row(`\`${name}\``, fieldsOf(proto, request), textOf(comment).replace(new RegExp(`^${name} `), "")),
  );
  return linesOfTable(["method", "fields of the request", "what it does"], rows);
}

interface Leaf {
  readonly name: string;
  readonly command: Command;
}

/** Returns the commands that do something: those without commands of their own. */
function leavesOf(command: Command, path: readonly string[] = []): Leaf[] {
  const below = command.commands.filter((it) => it.name() !== "help");
  if (below.length === 0) return [{ name: path.join(" "), command }];
  return below.flatMap((it) => leavesOf(it, [...path, it.name()]));
}

function usageOf({ name, command }: Leaf): string {
  const args = command.registeredArguments.map((it) => {
    const text = it.variadic ? `${it.name()}...` : it.name();
    return it.required ? ` <${text}>` : ` [${text}]`;
  });
  return `\`${name}${args.join("")}\``;
}

function mostFrequent(options: readonly { readonly description: string }[]): string {
  const counts = new Map<string, number>();
  for (const { description } of options) counts.set(description, (counts.get(description) ?? 0) + 1);
  return [...counts].sort(([, left], [, right]) => right - left)[0]?.[0] ?? "";
}

async function commandTables(): Promise<string> {
  const leaves = leavesOf(await makeProgram());
  const counts = new Map<string, number>();
  for (const { command } of leaves)
    for (const { flags } of command.options) counts.set(flags, (counts.get(flags) ?? 0) + 1);
  const isCommon = (flags: string) => (counts.get(flags) ?? 0) >= COMMON_AT;
  const options = leaves.flatMap(({ command }) => command.options);
  // A common option has the description that most commands give it.
  const common = [...new Set(options.map(({ flags }) => flags))]
    .filter(isCommon)
    .map((flags) => ({ flags, description: mostFrequent(options.filter((it) => it.flags === flags)) }));
  const rows = leaves.map((leaf) => {
    const own = leaf.command.options.filter(({ flags, hidden }) => !hidden && !isCommon(flags));
    return row(usageOf(leaf), own.map((it) => `\`${it.long}\``).join(" "), leaf.command.description());
  });
  return [
    linesOfTable(
      ["option of most commands", "what it does"],
      common.map(({ flags, description }) => row(`\`${flags}\``, description)),
    ),
    linesOfTable(["command", "options of its own", "what it does"], rows),
  ].join("\n\n");
}

/** Returns the options of each command, and of each command's group, by its words. */
export async function commandOptions(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const options = new Map<string, Set<string>>();
  for (const { name, command } of leavesOf(await makeProgram())) {
    const names = command.options.flatMap(({ short, long }) => [short ?? "", long ?? ""]);
    options.set(name, new Set([...names, "--help"]));
    const [group = name] = name.split(" ");
    if (group !== name) options.set(group, new Set(["--help"]));
  }
  return options;
}

/**
 * Parses a command without running it.
 * @returns what is wrong with its options, arguments and their values, or undefined
 */
export async function faultOfCommand(args: readonly string[]): Promise<string | undefined> {
  const program = await makeProgram(args[0]);
  for (const command of [program, ...allBelow(program)]) {
    command.exitOverride().configureOutput({ writeErr: () => undefined });
    if (command.commands.length === 0) command.action(() => undefined);
  }
  return program.parseAsync([...args], { from: "user" }).then(
    () => undefined,
    (error: Error) => error.message,
  );
}

function allBelow(command: Command): Command[] {
  return command.commands.flatMap((below) => [below, ...allBelow(below)]);
}

/** Returns docs/operator-api.md as it should be. */
export async function operatorPage(): Promise<string> {
  const made = { methods: methodTable(), commands: await commandTables() };
  return Object.entries(made).reduce(
    (page, [name, text]) =>
      page.replace(
        new RegExp(`<!-- ${name} -->\n[\\s\\S]*?<!-- end -->`),
        () => `<!-- ${name} -->\n\n${text}\n\n<!-- end -->`,
      ),
    readFileSync(PAGE, "utf8"),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(PAGE, await operatorPage());
