import type { Command } from "commander";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import { mistakeText } from "../config/mistakes.ts";
import { changesThatNeedRestart } from "../config/reload.ts";
import { type Log, type LogFormat, openLog } from "../log/log.ts";
import { secretsOf } from "./config-secrets.ts";
import { configOption, logFormatOption, logLevelOption, serviceIdOption } from "./options.ts";
import { readConfig } from "./read-config.ts";
import { Refusal } from "./refusal.ts";

interface ServeOptions {
  readonly config: string;
  readonly serviceId?: bigint;
  readonly logLevel: string;
  readonly logFormat: LogFormat;
}

export function addServeCommand(program: Command): void {
  program
    .command("serve")
    .description("Run the gateways until SIGTERM or SIGINT, then drain. SIGHUP reloads the configuration.")
    .addOption(configOption())
    .addOption(serviceIdOption())
    .addOption(logLevelOption())
    .addOption(logFormatOption())
    .addHelpText("after", "\nExample:\n  $ jobgate serve -c jobgate.toml --service-id 1")
    .action(serve);
}

async function serve(options: ServeOptions): Promise<void> {
  const log = openLog({ level: options.logLevel, format: options.logFormat });
  const { logger } = log;
  const { config, warnings } = await readConfig(options);
  log.hide(secretsOf(config));
  for (const warning of warnings) logger.warn(mistakeText(warning));

  // A SIGHUP that comes while starting is answered afterwards: by default it would end the process.
  let onReload: () => void = () => {};
  let reloadAsked = false;
  process.on("SIGHUP", () => {
    reloadAsked = true;
    onReload();
  });

  // One that comes while starting is answered afterwards too, since runners may be connected by then.
  const stopped = nextStopSignal();
  const gateway = await startGatewayOrRefuse(config, logger);
  // Whoever started jobgate may have read as much of this as it wanted, and gone.
  process.stdout.on("error", () => undefined);
  for (const { name, address } of gateway.listeners) console.log(`${name} listening on ${address}`);

  let reloads = Promise.resolve();
  onReload = () => {
    reloads = reloads.then(() => reload({ options, running: config, gateway, log }));
  };
  if (reloadAsked) onReload();

  logger.info({ signal: await stopped }, "stopping");
  onReload = () => {};
  await reloads;
  await gateway.stop();
  logger.info("stopped");
}

interface ReloadOptions {
  readonly options: ServeOptions;
  /** What the process was started with. */
  readonly running: Config;
  readonly gateway: { reload(config: Config): Promise<void> };
  readonly log: Log;
}

/** Takes over a changed configuration, or none of it when there is a mistake. Never rejects. */
async function reload({ options, running, gateway, log }: ReloadOptions): Promise<void> {
  const { logger } = log;
  try {
    const { config, warnings } = await readConfig(options);
    log.hide(secretsOf(config));
    for (const warning of warnings) logger.warn(mistakeText(warning));
    const needRestart = changesThatNeedRestart(running, config);
    if (needRestart.length > 0)
      logger.warn({ needRestart }, "these changes take effect only at the next start");
    await gateway.reload(config);
    logger.info("configuration reloaded");
  } catch (error) {
    if (error instanceof Refusal)
      logger.error({ mistakes: error.lines }, "reload refused, nothing was changed");
    else logger.error({ err: error }, "reload failed");
  }
}

async function startGatewayOrRefuse(config: Config, logger: Logger) {
  // Loaded late, so that the other commands start without all of the gateway's parts.
  const { startGateway } = await import("../gateway.ts");
  try {
    return await startGateway({ config, logger });
  } catch (error) {
    logger.debug({ err: error }, "start failed");
    throw new Refusal([error instanceof Error ? error.message : String(error)]);
  }
}

/** The first signal asks to drain; the second finds no handler and ends the process at once. */
function nextStopSignal(): Promise<NodeJS.Signals> {
  const signals = ["SIGTERM", "SIGINT"] as const;
  return new Promise((resolve) => {
    const onSignal = (signal: NodeJS.Signals): void => {
      for (const name of signals) process.off(name, onSignal);
      resolve(signal);
    };
    for (const name of signals) process.on(name, onSignal);
  });
}
