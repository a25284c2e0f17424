import { Argument, type Command, type Option } from "commander";
import { addCommand } from "../../commands/options.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

export function addTo(program: Command): void {
  addCommand(program, {
    name: "completion",
    description: "Print a script with which a shell completes commands, options and their values.",
    notes: `Add it to the shell's start file:
  bash  source <(jobgate completion bash)
  zsh   source <(jobgate completion zsh)
  fish  jobgate completion fish | source`,
    example: "completion bash > ~/.local/share/bash-completion/completions/jobgate",
    takes: [new Argument("<shell>", "shell to print it for").choices(SHELLS)],
  }).action((shell: Shell) => console.log(SCRIPTS[shell](commandsOf(program))));
}

/** A command, or a group of commands, as a shell completes it. */
interface Completed {
  /** Words of the command line that lead to the command; empty for jobgate itself. */
  readonly path: readonly string[];
  /** Commands of the group, or values of the command's argument. */
  readonly words: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly {
    /** `--config`, `-c` */
    readonly flags: readonly string[];
    readonly description: string;
    readonly takesValue: boolean;
    /** Values that the option accepts; empty if it accepts any value, or a file. */
    readonly choices: readonly string[];
  }[];
}

function commandsOf(command: Command, path: readonly string[] = []): Completed[] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command).filter((one) => one.name() !== "help");
  const values = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
  const completed = {
    path,
    words: [
      ...commands.map((one) => ({ name: one.name(), description: one.description() })),
      ...values.map((name) => ({ name, description: "" })),
    ],
    options: help.visibleOptions(command).map((option: Option) => ({
      flags: [option.long, option.short].filter((flag) => flag !== undefined && flag !== null),
      description: option.description,
      takesValue: option.required || option.optional,
      choices: option.argChoices ?? [],
    })),
  };
  return [completed, ...commands.flatMap((one) => commandsOf(one, [...path, one.name()]))];
}

const SCRIPTS: Record<Shell, (commands: readonly Completed[]) => string> = { bash, zsh, fish };

/** Lines of a `case` that finds the command that the words lead to. */
function pathCases(commands: readonly Completed[]): string {
  const paths = commands.filter(({ path }) => path.length > 0).map(({ path }) => path);
  return paths
    .map(
      (path) => `${quote(`${path.slice(0, -1).join(" ")}|${path.at(-1)}`)}) at=${quote(path.join(" "))} ;;`,
    )
    .join("\n      ");
}

/** Lines of a `case` for the values of options. */
function valueCases(
  commands: readonly Completed[],
  complete: (choices: readonly string[]) => string,
): string {
  const options = commands.flatMap(({ path, options }) =>
    options.filter(({ takesValue }) => takesValue).map((option) => ({ path: path.join(" "), ...option })),
  );
  return options
    .map(({ path, flags, choices }) => {
      const patterns = flags.map((flag) => quote(`${path}|${flag}`)).join("|");
      return `${patterns}) ${complete(choices)}; return ;;`;
    })
    .join("\n    ");
}

function bash(commands: readonly Completed[]): string {
  const cases = commands.map(({ path, words, options }) => {
    const known = [...words.map(({ name }) => name), ...options.flatMap(({ flags }) => flags)];
    return `${quote(path.join(" "))}) words=${quote(known.join(" "))} ;;`;
  });
  // An empty answer makes bash complete the names of files.
  const complete = (choices: readonly string[]) =>
    choices.length === 0 ? ":" : `COMPREPLY=($(compgen -W ${quote(choices.join(" "))} -- "$current"))`;
  return `\
# bash completion of jobgate
_jobgate() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} at= word words=
  COMPREPLY=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at|$word" in
      ${pathCases(commands)}
    esac
  done
  case "$at|$previous" in
    ${valueCases(commands, complete)}
  esac
  case "$at" in
    ${cases.join("\n    ")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _jobgate jobgate`;
}

function zsh(commands: readonly Completed[]): string {
  const described = commands.map(({ path, words, options }) => {
    const entries = [
      ...words.map(({ name, description }) => [name, description] as const),
      ...options.flatMap(({ flags, description }) => flags.map((flag) => [flag, description] as const)),
    ];
    const texts = entries.map(([name, description]) => quote(`${name}:${description}`));
    return `${quote(path.join(" "))}) words_=(${texts.join(" ")}) ;;`;
  });
  const complete = (choices: readonly string[]) =>
    choices.length === 0 ? "_files" : `compadd -- ${choices.map(quote).join(" ")}`;
  return `\
#compdef jobgate
_jobgate() {
  local previous=\${words[CURRENT-1]} at= word
  local -a words_
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at|$word" in
      ${pathCases(commands)}
    esac
  done
  case "$at|$previous" in
    ${valueCases(commands, complete)}
  esac
  case "$at" in
    ${described.join("\n    ")}
  esac
  _describe jobgate words_ || _files
}
compdef _jobgate jobgate`;
}

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ path, words, options }) => {
    const next = words.map(({ name }) => name);
    const seen = path.map((word) => `__fish_seen_subcommand_from ${word}`);
    const unseen = next.length === 0 ? [] : [`not __fish_seen_subcommand_from ${next.join(" ")}`];
    const here = path.length === 0 ? "__fish_use_subcommand" : [...seen, ...unseen].join("; and ");
    const condition = `-n ${quote(here)}`;
    return [
      ...words.map(
        ({ name, description }) => `complete -c jobgate -f ${condition} -a ${name} -d ${quote(description)}`,
      ),
      ...options.map(({ flags, description, takesValue, choices }) => {
        const names = flags.map((flag) =>
          flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
        );
        const value = choices.length > 0 ? ` -x -a ${quote(choices.join(" "))}` : takesValue ? " -r" : "";
        return `complete -c jobgate ${condition} ${names.join(" ")}${value} -d ${quote(description)}`;
      }),
    ];
  });
  return ["# fish completion of jobgate", ...lines].join("\n");
}

/** Quotes a text for each of the shells. None of the texts has a backslash, which fish reads within quotes. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\"'\"'")}'`;
}
