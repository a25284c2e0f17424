import type { Command } from "commander";
import type { Logger } from "pino";
import { changesThatNeedRestart } from "../config/checked-file.ts";
import type { Config } from "../config/config.ts";
import { mistakeText } from "../config/mistakes.ts";
import { jobKeyText } from "../core/job-call.ts";
import { jobLabel } from "../core/route.ts";
import { type Log, type LogFormat, openLog, secretsOf } from "../log/log.ts";

import { type ConfigSelection, Refusal, readConfig } from "./input.ts";
import { addCommand, configOption, logFormatOption, logLevelOption, serviceIdOption } from "./options.ts";

export function addTo(program: Command): void {
  addCommand(program, {
    name: "serve",
    description: "Run the gateways until SIGTERM or SIGINT, then drain. SIGHUP reloads the configuration.",
    example: "serve -c jobgate.toml --service-id 1",
    takes: [configOption(), serviceIdOption(), logLevelOption(), logFormatOption()],
  }).action(serve);
}

async function serve(
  options: ConfigSelection & { readonly logLevel: string; readonly logFormat: LogFormat },
): Promise<void> {
  const log = openLog({ level: options.logLevel, format: options.logFormat });
  const { logger } = log;
  const config = await loadConfig(options, log);

  // A signal during the start is handled after it: SIGHUP would end the process by default, and runners may already be
  // connected when SIGTERM arrives.
  let onReload: () => void = () => {};
  let reloadAsked = false;
  process.on("SIGHUP", () => {
    reloadAsked = true;
    onReload();
  });
  const stopped = nextStopSignal();
  const starting = new AbortController();
  void stopped.then(() => starting.abort());
  const gateway = await startGatewayOrRefuse(config, logger, starting.signal);
  if (gateway === undefined) return;
  for (const { name, address } of gateway.listeners) console.log(`${name} listening on ${address}`);

  let reloads = Promise.resolve();
  onReload = () => {
    reloads = reloads.then(() => reload({ gateway, running: config, options, log }));
  };
  if (reloadAsked) onReload();

  logger.info({ signal: await stopped }, "stopping");
  onReload = () => {};
  await reloads;
  await gateway.stop();
  logger.info("stopped");
}

/** Applies a changed configuration, or leaves everything unchanged if it has a mistake. Never rejects. */
async function reload(context: {
  readonly gateway: { reload(config: Config): Promise<void> };
  /** The configuration that the process was started with. */
  readonly running: Config;
  readonly options: ConfigSelection;
  readonly log: Log;
}): Promise<void> {
  const { gateway, running, options, log } = context;
  const { logger } = log;
  try {
    const next = await loadConfig(options, log);
    const needRestart = changesThatNeedRestart(running, next);
    if (needRestart.length > 0)
      logger.warn({ needRestart }, "some changes take effect only at the next start");
    const { serviceId } = running;
    // Jobs that name no service keep the gateway's service ID, which changes only at the next start.
    const config = next.serviceId === serviceId ? next : await loadConfig({ ...options, serviceId }, log);
    await gateway.reload(config);
    logger.info("configuration reloaded");
  } catch (error) {
    if (error instanceof Refusal)
      logger.error({ mistakes: error.lines }, "reload refused, nothing was changed");
    else logger.error({ err: error }, "reload failed");
  }
}

/** Texts by which people know the paid jobs, by service and index. */
function jobNames({ x402 }: Config): ReadonlyMap<string, string> {
  const named = (x402?.jobs ?? []).flatMap((job) => {
    const label = jobLabel(job);
    return label === undefined ? [] : [[jobKeyText(job.serviceId, job.jobIndex), label] as const];
  });
  return new Map(named);
}

/** Reads the configuration, hides its secrets in the log and names its jobs there, and logs its warnings. @throws Refusal with its mistakes */
export async function loadConfig(options: ConfigSelection, log: Log): Promise<Config> {
  const { config, warnings } = await readConfig(options);
  const { shown: _, ...values } = config;
  log.hide(secretsOf(values));
  log.nameJobs(jobNames(config));
  for (const warning of warnings) log.logger.warn(mistakeText(warning));
  return config;
}

/** @returns undefined when a signal ended the wait for the store */
export async function startGatewayOrRefuse(config: Config, logger: Logger, signal: AbortSignal) {
  // The module is loaded here, so that other commands start without the gateway's modules.
  const { startGateway } = await import("../start-gateway.ts");
  try {
    return await startGateway({ config, logger, signal });
  } catch (error) {
    if (signal.aborted) {
      logger.info("stopped");
      return undefined;
    }
    logger.debug({ err: error }, "start failed");
    throw new Refusal([error instanceof Error ? error.message : String(error)]);
  }
}

/** Resolves at the first signal. A second signal finds no handler, so it ends the process at once. */
export function nextStopSignal(): Promise<NodeJS.Signals> {
  const signals = ["SIGTERM", "SIGINT"] as const;
  return new Promise((resolve) => {
    const onSignal = (signal: NodeJS.Signals): void => {
      for (const name of signals) process.off(name, onSignal);
      resolve(signal);
    };
    for (const name of signals) process.on(name, onSignal);
  });
}
