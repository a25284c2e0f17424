import { access, constants } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, delimiter, join } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { parseBindAddress } from "../../core/network-address.ts";
import { SubscriptionRefused, Worker } from "../../delivery/runner-client/worker.ts";
import { isMediaType } from "../../delivery/runner-requests.ts";
import { type LogFormat, openLog } from "../../log/log.ts";
import { Refusal } from "../input.ts";
import { logFormatOption, logLevelOption, parseInteger, parseServiceId } from "../options.ts";
import { runJobProgram } from "./job-program.ts";

const MAX_CONCURRENCY = 10_000;
const MAX_SUBSCRIBER_LENGTH = 128;
/** Longest timeout of a Node timer. */
const MAX_TIMEOUT_SECS = 2_147_483;

export function addRunEachCommand(program: Command): void {
  program
    .command("run-each")
    .description(
      "Run a program once for each JobCall. The program reads the body from stdin and prints the result.",
    )
    .usage("[options] -- PROGRAM [ARGS...]")
    .argument("<program>", "program to run, without a shell; exit code 0 means success")
    .argument("[args...]", "arguments of the program")
    .addOption(
      new Option("--runner <address>", "host:port or unix:PATH of the runner listener")
        .env("JOBGATE_RUNNER")
        .default("127.0.0.1:8403")
        .argParser(parseRunner),
    )
    .addOption(
      new Option("--concurrency <N>", "maximum number of programs at once")
        .env("JOBGATE_CONCURRENCY")
        .default(1)
        .argParser((value) => parseInteger(value, 1, MAX_CONCURRENCY)),
    )
    .addOption(
      new Option("--job-ids <ids>", "job IDs to run, separated by commas (default: all)")
        .env("JOBGATE_JOB_IDS")
        .default([], "all")
        .argParser((value) => value.split(",").map(parseServiceId)),
    )
    .addOption(
      new Option("--subscriber <name>", "name of this runner in jobgate (default: host and program)")
        .env("JOBGATE_SUBSCRIBER")
        .argParser(parseSubscriber),
    )
    .addOption(
      new Option(
        "--timeout <seconds>",
        "longest run of a program; after it the program is killed and the JobCall retried (default: none)",
      )
        .env("JOBGATE_TIMEOUT")
        .argParser((value) => parseInteger(value, 1, MAX_TIMEOUT_SECS)),
    )
    .addOption(
      new Option("--content-type <type>", "media type of the results")
        .env("JOBGATE_CONTENT_TYPE")
        .default("application/octet-stream")
        .argParser(parseContentType),
    )
    .addOption(
      new Option(
        "--fail-on <codes>",
        "exit codes that make the JobCall a dead letter; other codes but 0 retry it",
      )
        .env("JOBGATE_FAIL_ON")
        .default([64, 65], "64,65")
        .argParser((value) =>
          value === "" ? [] : value.split(",").map((code) => parseInteger(code, 1, 255)),
        ),
    )
    .addOption(logLevelOption())
    .addOption(logFormatOption())
    .addHelpText(
      "after",
      "\nThe token of the runner listener is JOBGATE_RUNNER_TOKEN.\n" +
        "\nExample:\n  $ jobgate run-each --concurrency 4 --timeout 60 -- ./resize.sh --width 200",
    )
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
  const worker = new Worker({
    ...{ address, concurrency, jobIds },
    ...(token === undefined ? {} : { token }),
    subscriber: options.subscriber ?? `${hostname()}/${basename(command)}`.slice(0, MAX_SUBSCRIBER_LENGTH),
    work: (delivery, lost) => runJobProgram(program, delivery, lost),
    logger: log.logger,
  });

  let stops = 0;
  const stop = (signal: NodeJS.Signals): void => {
    stops++;
    log.logger.info({ signal }, "stopping");
    if (stops === 1) worker.stop();
    else worker.kill();
  };
  process.on("SIGINT", stop).on("SIGTERM", stop);
  try {
    await worker.run();
  } catch (error) {
    if (!(error instanceof SubscriptionRefused)) throw error;
    throw new Refusal([`${address} refuses this runner: ${error.message}`]);
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop);
  }
  if (stops > 1) throw new Refusal(["Stopped at once: unfinished JobCalls go to the next subscriber."]);
}

/** This process's variables, without its tokens and without those that look like metadata of the JobCall. */
function programEnvironment(): NodeJS.ProcessEnv {
  const isKept = (name: string): boolean => !/^JOBGATE_.*TOKEN$|^X_(X402|WEBHOOK|CHAIN)_/.test(name);
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

function parseSubscriber(value: string): string {
  if (value.length > MAX_SUBSCRIBER_LENGTH)
    throw new InvalidArgumentError(`Expected at most ${MAX_SUBSCRIBER_LENGTH} characters.`);
  return value;
}

function parseContentType(value: string): string {
  if (!isMediaType(value))
    throw new InvalidArgumentError("Expected a media type, for example application/json.");
  return value;
}
