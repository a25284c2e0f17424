import { access, constants } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, delimiter, join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import type { Logger } from "pino";
import { Refusal } from "../../commands/input.ts";
import {
  addCommand,
  logFormatOption,
  logLevelOption,
  matching,
  option,
  parseInteger,
  parseServiceId,
} from "../../commands/options.ts";
import { isMediaType } from "../../core/job-call.ts";
import { parseBindAddress } from "../../core/network-address.ts";
import { type LogFormat, openLog } from "../../log/log.ts";
import { Fail, type Job, type Result, RunnerError } from "../../runner/job.ts";
import { run } from "../../runner/run.ts";
import { type JobProgram, runJobProgram } from "./job-program.ts";

const MAX_CONCURRENCY = 10_000;
const MAX_SUBSCRIBER_LENGTH = 128;
/** Longest timeout of a Node timer. */
const MAX_TIMEOUT_SECS = 2_147_483;

export function addTo(program: Command): void {
  addCommand(program, {
    name: "run-each",
    description:
      "Run a program once for each JobCall. The program reads the body from stdin and prints the result.",
    notes: "The token of the runner listener is JOBGATE_RUNNER_TOKEN.",
    example: "run-each --concurrency 4 --timeout 60 -- ./resize.sh --width 200",
    takes: [
      option("--runner <address>", "host:port or unix:PATH of the runner listener")
        .default("127.0.0.1:8403")
        .argParser(parseRunner),
      option("--concurrency <N>", "maximum number of programs at once")
        .default(1)
        .argParser((value) => parseInteger(value, 1, MAX_CONCURRENCY)),
      option("--job-ids <ids>", "job IDs to run, separated by commas (default: all)")
        .default([], "all")
        .argParser((value) => value.split(",").map(parseServiceId)),
      option("--subscriber <name>", "name of this runner in jobgate (default: host and program)").argParser(
        matching(
          new RegExp(`^.{0,${MAX_SUBSCRIBER_LENGTH}}$`, "s"),
          `at most ${MAX_SUBSCRIBER_LENGTH} characters`,
        ),
      ),
      option(
        "--timeout <seconds>",
        "longest run of a program; after it the program is killed and the JobCall retried (default: none)",
      ).argParser((value) => parseInteger(value, 1, MAX_TIMEOUT_SECS)),
      option("--content-type <type>", "media type of the results")
        .default("application/octet-stream")
        .argParser(parseContentType),
      option(
        "--fail-on <codes>",
        "exit codes that make the JobCall a dead letter; other codes but 0 retry it",
      )
        .default([64, 65], "64,65")
        .argParser((value) =>
          value === "" ? [] : value.split(",").map((code) => parseInteger(code, 1, 255)),
        ),
      logLevelOption(),
      logFormatOption(),
    ],
  })
    .usage("[options] -- PROGRAM [ARGS...]")
    .argument("<program>", "program to run, without a shell; exit code 0 means success")
    .argument("[args...]", "arguments of the program")
    .action(runEach);
}

async function runEach(
  command: string,
  args: readonly string[],
  options: {
    readonly runner: string;
    readonly concurrency: number;
    readonly jobIds: readonly bigint[];
    readonly subscriber?: string;
    readonly timeout?: number;
    readonly contentType: string;
    readonly failOn: readonly number[];
    readonly logLevel: string;
    readonly logFormat: LogFormat;
  },
): Promise<void> {
  await checkProgram(command);
  const token = process.env.JOBGATE_RUNNER_TOKEN || undefined;
  const log = openLog({ level: options.logLevel, format: options.logFormat });
  log.hide(token === undefined ? [] : [token]);
  const { runner: address, concurrency, jobIds, timeout, contentType, failOn: failCodes } = options;
  const timeoutMs = timeout === undefined ? undefined : timeout * 1000;
  const program = { command, args, timeoutMs, contentType, failCodes, env: programEnvironment() };
  // After a second signal the programs get SIGTERM, and are waited for.
  const running = new Set<Promise<unknown>>();
  const handler = (job: Job): Promise<Result> => {
    const result = runLogged(program, job, log.logger);
    const forget = () => void running.delete(ended);
    const ended: Promise<void> = result.then(forget, forget);
    running.add(ended);
    return result;
  };
  const subscriber =
    options.subscriber ?? `${hostname()}/${basename(command)}`.slice(0, MAX_SUBSCRIBER_LENGTH);
  try {
    await run(handler, { address, token, subscriber, concurrency, jobIds, logger: log.logger });
  } catch (error) {
    await Promise.all(running);
    throw error instanceof RunnerError ? new Refusal([error.message]) : error;
  }
}

async function runLogged(program: JobProgram, job: Job, logger: Logger): Promise<Result> {
  const { callId, attempt, signal } = job;
  try {
    const result = await runJobProgram(program, job);
    logger.info({ callId, attempt, outcome: "done" }, "finished");
    return result;
  } catch (error) {
    const reason = (error as Error).message;
    if (signal.aborted) logger.warn({ callId, attempt, reason }, "lease lost; the program has ended");
    else
      logger.info({ callId, attempt, outcome: error instanceof Fail ? "fail" : "retry", reason }, "finished");
    throw error;
  }
}

/** This process's variables, without its tokens and without variables that look like metadata of the JobCall. */
function programEnvironment(): NodeJS.ProcessEnv {
  const isKept = (name: string): boolean => !/^JOBGATE_.*TOKEN$|^X_(X402|WEBHOOK|CHAIN|HTTP)_/.test(name);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => isKept(name)));
}

/** Refuses a program that does not exist before it costs a JobCall an attempt. Searches PATH as the system does. */
async function checkProgram(command: string): Promise<void> {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const candidates = command.includes("/") ? [command] : folders.map((folder) => join(folder, command));
  for (const candidate of candidates) if (await isExecutable(candidate)) return;
  throw new Refusal([`${command}: no such executable program`]);
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function parseRunner(value: string): string {
  if (parseBindAddress(value) === undefined)
    throw new InvalidArgumentError("Expected host:port or unix:PATH.");
  return value;
}

function parseContentType(value: string): string {
  if (!isMediaType(value))
    throw new InvalidArgumentError("Expected a media type, for example application/json.");
  return value;
}
