import { userInfo } from "node:os";
import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { ORIGINS } from "../core/job-call.ts";
import { LOG_FORMATS, LOG_LEVELS } from "../log/log.ts";

const MAX_LIMIT = 100_000;

/**
 * Adds a command with one example of its use.
 * @param notes text of the help above the example
 */
export function addCommand(
  parent: Command,
  about: {
    readonly name: string;
    readonly description: string;
    readonly notes?: string;
    /** Without `jobgate`. */
    readonly example: string;
    /** Arguments and options, in the order of the help. */
    readonly takes?: readonly (Argument | Option)[];
  },
): Command {
  const { name, description, notes, example, takes = [] } = about;
  const command = parent.command(name).description(description);
  for (const one of takes) {
    if (one instanceof Argument) command.addArgument(one);
    else command.addOption(one);
  }
  if (notes !== undefined) command.addHelpText("after", `\n${notes}`);
  return command.addHelpText("after", `\nExample:\n  $ jobgate ${example}`);
}

/** Returns the command to which other commands are added. Several parts may add to one command. */
export function commandGroup(program: Command, about: Parameters<typeof addCommand>[1]): Command {
  return program.commands.find((command) => command.name() === about.name) ?? addCommand(program, about);
}

/** Adds a command that calls a running jobgate. */
export function addOperatorCommand(
  parent: Command,
  about: Omit<Parameters<typeof addCommand>[1], "notes">,
): Command {
  const target = option(
    "--target <address>",
    "host:port, unix:PATH or URL of the operator listener; overrides the configuration file",
  );
  return addCommand(parent, {
    ...about,
    notes:
      "The token is JOBGATE_OPERATOR_TOKEN or, if that is not set, operator.token of the configuration file.",
    takes: [configOption(), target, ...(about.takes ?? [])],
  });
}

/** Makes an option that an environment variable can also set: JOBGATE_PAY_TO sets `--pay-to <address>`. */
export function option(flags: string, description: string): Option {
  const made = new Option(flags, description);
  if (made.required || made.optional) return made.env(twinOf(made));
  made.description = `${description} (env: ${twinOf(made)})`;
  FLAGS_WITH_TWINS.add(made);
  return made;
}

/**
 * Makes an option that no environment variable can set. It is for options that select what a command changes, because a
 * variable that stays set would select the same thing in every run.
 */
export function argumentOnly(flags: string, description: string): Option {
  return new Option(flags, description);
}

const FLAGS_WITH_TWINS = new WeakSet<Option>();

function twinOf(made: Option): string {
  return `JOBGATE_${made.name().toUpperCase().replaceAll("-", "_")}`;
}

/**
 * Sets a command's flags from their environment variables. commander itself treats any value as true, even `0` and
 * `false`.
 */
export function readFlagTwins(command: Command): void {
  for (const flag of command.options) {
    if (!FLAGS_WITH_TWINS.has(flag)) continue;
    const name = flag.attributeName();
    if (command.getOptionValueSource(name) !== "cli" && isSet(twinOf(flag)))
      command.setOptionValueWithSource(name, !flag.negate, "env");
  }
}

function isSet(variable: string): boolean {
  const value = process.env[variable] ?? "";
  if (["", "0", "false"].includes(value)) return false;
  if (["1", "true"].includes(value)) return true;
  throw new InvalidArgumentError(`${variable}: expected 1, true, 0 or false.`);
}

/** Makes a parser for an argument that has one form. commander adds the option's name to the error. */
export const matching =
  (form: RegExp, expected: string) =>
  (value: string): string => {
    if (form.test(value)) return value;
    throw new InvalidArgumentError(`Expected ${expected}.`);
  };

export const configOption = () => option("-c, --config <file>", "configuration file").default("jobgate.toml");

export const noteOption = () => option("--note <text>", "reason, for the journal").makeOptionMandatory();

export const byOption = () =>
  option("--by <name>", "your name, for the journal").default(userInfo().username, "the user's");

export const serviceIdOption = () =>
  option("--service-id <N>", "service ID of webhook JobCalls; overrides the configuration file").argParser(
    parseServiceId,
  );

export const logLevelOption = () =>
  option("--log-level <level>", "lowest level that is logged to stderr").choices(LOG_LEVELS).default("info");

export const logFormatOption = () =>
  option("--log-format <format>", "JSON lines or readable text; auto: readable text on a terminal")
    .choices(LOG_FORMATS)
    .default("auto");

export const bodyOption = () => option("--body <file>", "file with the request body").makeOptionMandatory();

export const jsonOption = (description = "print JSON lines, as the API returns them") =>
  option("--json", description);

/** @param make {@link argumentOnly} if the option selects what the command changes */
export const jobOption = (make = option) =>
  make(
    "--job <job>",
    "only this job: its name, its route such as `POST /words`, the path of its webhooks, its ID, or SERVICE/ID",
  ).argParser(parseJob);

export const originOption = (make = option) =>
  make("--origin <origin>", "only what was paid, what webhooks started, or what operators resent").choices(
    ORIGINS,
  );

/** Options of every command that prints a list. */
export const listOptions = () => [
  option("--limit <N>", "maximum number of entries, newest first")
    .default(50)
    .argParser((value) => parseInteger(value, 1, MAX_LIMIT)),
  option("--all", "every entry, however many; with --json as they are read").conflicts("limit"),
  jsonOption(),
];

/** @param description meaning of the time */
export const sinceOption = (description: string) =>
  option(
    "--since <time>",
    `${description}: 2026-01-31, 2026-01-31T10:00Z, or an age such as 90m, 2h, 7d`,
  ).argParser(parseTime);

/** Options that select entries of a list, apart from their states. */
export const filterOptions = () => [
  jobOption(),
  option("--payer <address>", "only what this address paid for"),
  sinceOption("only requests from then on"),
  option("--until <time>", "only requests before then").argParser(parseTime),
  ...listOptions(),
];

/** Selects entries in one of these states. */
export const stateOption = (things: string, states: Readonly<Record<string, unknown>>) =>
  option("--state <state>", `only ${things} in this state`).choices(Object.keys(states));

/** ID of a job, and its service. Without a service, the ID selects the jobs of all services. */
export interface NumberedJob {
  readonly serviceId?: bigint | undefined;
  readonly jobId: bigint;
}

/** Values of {@link filterOptions}. */
export interface FilterOptions {
  readonly job?: NumberedJob | { readonly name: string };
  readonly payer?: string;
  /** Unix milliseconds. */
  readonly since?: number;
  readonly until?: number;
}

function parseJob(value: string): FilterOptions["job"] {
  const [, service, job = ""] = /^(?:([0-9]+)\/)?([0-9]+)$/.exec(value) ?? [];
  // A route contains a path, and a webhook endpoint has one.
  const hasPath = /(^| )\//.test(value);
  if (value === "" || (value.includes("/") && service === undefined && !hasPath))
    throw new InvalidArgumentError(
      "Expected a job: its name, its route, the path of its webhooks, or its ID, such as 3 or 1/3.",
    );
  if (job === "") return { name: value };
  return {
    jobId: parseServiceId(job),
    serviceId: service === undefined ? undefined : parseServiceId(service),
  };
}

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

export function parseTime(value: string): number {
  const [, count, unit] = /^([0-9]{1,6})([smhd])$/.exec(value) ?? [];
  if (count !== undefined) return Date.now() - Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  const time = /^[0-9]{4}-[0-9]{2}-[0-9]{2}/.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(time))
    throw new InvalidArgumentError("Expected a time such as 2026-01-31T10:00Z, or an age such as 2h.");
  return time;
}

export const callIdArgument = () => new Argument("<id>", "call ID").argParser(parseCallId);

export const idsArgument = (description = "call IDs") =>
  new Argument("<id...>", description).argParser((value: string, previous: bigint[] | undefined) => [
    ...(previous ?? []),
    parseCallId(value),
  ]);

export function parseCallId(value: string): bigint {
  if (!/^[1-9][0-9]{0,15}$/.test(value)) throw new InvalidArgumentError("Expected a call ID.");
  return BigInt(value);
}

export function parseServiceId(value: string): bigint {
  if (!/^(0|[1-9][0-9]{0,19})$/.test(value) || BigInt(value) >= 2n ** 64n)
    throw new InvalidArgumentError("Expected an integer from 0 to 2^64 - 1.");
  return BigInt(value);
}

export function parseInteger(value: string, min: number, max: number): number {
  const number = /^(0|[1-9][0-9]{0,9})$/.test(value) ? Number(value) : Number.NaN;
  if (!(number >= min && number <= max))
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`);
  return number;
}
