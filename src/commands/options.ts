import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { LOG_FORMATS, LOG_LEVELS } from "../log/log.ts";

const MAX_LIMIT = 100_000;

export const configOption = () =>
  new Option("-c, --config <file>", "configuration file").default("jobgate.toml").env("JOBGATE_CONFIG");

export const serviceIdOption = () =>
  new Option("--service-id <N>", "service ID of webhook JobCalls; overrides the configuration file")
    .env("JOBGATE_SERVICE_ID")
    .argParser(parseServiceId);

export const logLevelOption = () =>
  new Option("--log-level <level>", "lowest level that is logged to stderr")
    .choices(LOG_LEVELS)
    .default("info")
    .env("JOBGATE_LOG_LEVEL");

export const logFormatOption = () =>
  new Option("--log-format <format>", "JSON lines or readable text; auto: readable text on a terminal")
    .choices(LOG_FORMATS)
    .default("auto")
    .env("JOBGATE_LOG_FORMAT");

export const bodyOption = () =>
  new Option("--body <file>", "file with the request body").env("JOBGATE_BODY").makeOptionMandatory();

/** Adds the options of every command that calls a running jobgate. */
export function addOperatorOptions(command: Command): Command {
  return command
    .addOption(configOption())
    .addOption(
      new Option(
        "--target <address>",
        "host:port, unix:PATH or URL of the operator listener; overrides the configuration file",
      ).env("JOBGATE_TARGET"),
    )
    .addHelpText(
      "after",
      "\nThe token is JOBGATE_OPERATOR_TOKEN or, if that is not set, operator.token of the configuration file.",
    );
}

export const jsonOption = () =>
  new Option("--json", "print JSON lines, as the API returns them (env: JOBGATE_JSON)");

export const limitOption = () =>
  new Option("--limit <N>", "maximum number of entries, newest first")
    .default(50)
    .env("JOBGATE_LIMIT")
    .argParser((value) => parseInteger(value, 1, MAX_LIMIT));

export const callIdArgument = () => new Argument("<id>", "call ID").argParser(parseCallId);

export const callIdsArgument = () =>
  new Argument("<id...>", "call IDs").argParser((value: string, previous: bigint[] | undefined) => [
    ...(previous ?? []),
    parseCallId(value),
  ]);

function parseCallId(value: string): bigint {
  if (!/^[1-9][0-9]{0,15}$/.test(value)) throw new InvalidArgumentError("Expected a call ID.");
  return BigInt(value);
}

/** Reads the environment twin of a flag. commander takes any value for yes, even `0` and `false`. */
export function isFlagSet(name: string): boolean {
  const value = process.env[name] ?? "";
  if (["", "0", "false"].includes(value)) return false;
  if (["1", "true"].includes(value)) return true;
  throw new InvalidArgumentError(`${name}: expected 1, true, 0 or false.`);
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
