import { InvalidArgumentError, Option } from "commander";
import { LOG_FORMATS, LOG_LEVELS } from "../log/log.ts";

/** `-c`: the same for every command that reads the configuration. */
export const configOption = () =>
  new Option("-c, --config <file>", "configuration file").default("jobgate.toml").env("JOBGATE_CONFIG");

export const serviceIdOption = () =>
  new Option("--service-id <N>", "service id of webhook JobCalls, before that of the file")
    .env("JOBGATE_SERVICE_ID")
    .argParser(parseServiceId);

export const logLevelOption = () =>
  new Option("--log-level <level>", "how much to log to stderr")
    .choices(LOG_LEVELS)
    .default("info")
    .env("JOBGATE_LOG_LEVEL");

export const logFormatOption = () =>
  new Option("--log-format <format>", "json lines, or pretty for people; auto: pretty on a terminal")
    .choices(LOG_FORMATS)
    .default("auto")
    .env("JOBGATE_LOG_FORMAT");

/**
 * Whether a flag's environment twin asks for it. commander would take any value, `0` and `false` included, for yes.
 */
export function isFlagSet(name: string): boolean {
  const value = process.env[name] ?? "";
  if (["", "0", "false"].includes(value)) return false;
  if (["1", "true"].includes(value)) return true;
  throw new InvalidArgumentError(`${name}: expected 1, true, 0 or false.`);
}

export function parseServiceId(value: string): bigint {
  if (!/^(0|[1-9][0-9]{0,19})$/.test(value) || BigInt(value) >= 2n ** 64n) {
    throw new InvalidArgumentError("Expected an integer from 0 to 2^64 - 1.");
  }
  return BigInt(value);
}

export function parseJobIndex(value: string): number {
  if (!/^(0|[1-9][0-9]{0,9})$/.test(value) || Number(value) >= 2 ** 32) {
    throw new InvalidArgumentError("Expected an integer from 0 to 2^32 - 1.");
  }
  return Number(value);
}
