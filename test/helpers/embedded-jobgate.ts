import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { readConfig } from "../../src/commands/input.ts";
import { encodeJobCall } from "../../src/delivery/job-call-codec.ts";
import { openLog, secretsOf } from "../../src/log/log.ts";

import { openStore } from "../../src/open-store.ts";
import { startGateway } from "../../src/start-gateway.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import type { X402Periods } from "../../src/x402/gateway-options.ts";
import { type Exit, type Jobgate, urlsOf } from "./jobgate-process.ts";
import { writeEmptyDatabase } from "./test-store.ts";

const EXITED: Exit = { code: 0, signal: null };

/**
 * Starts all of jobgate within this process, from the same configuration file as `jobgate serve`. It takes a tenth of a
 * process's time to start. It obeys SIGTERM and SIGHUP, and no others: a crash needs a process.
 */
export async function startEmbeddedJobgate(options: {
  /** TOML. Ports 0 are free ones. */
  readonly config: string;
  /** Default: a new one, removed on `stop`. */
  readonly folder?: string;
  /** Default: short ones, where nothing is too slow for them. */
  readonly periods?: Partial<X402Periods>;
  /** Default: info. */
  readonly logLevel?: "info" | "trace";
  /** Puts something between jobgate and its SQLite store. Default: nothing. */
  readonly wrapStore?: (store: Store) => Store;
}): Promise<Jobgate> {
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), "jobgate-")));
  const configPath = join(folder, "jobgate.toml");
  await writeFile(configPath, options.config);
  const logs: string[] = [];
  const { logger, hide } = openLog({
    level: options.logLevel ?? "info",
    format: "json",
    destination: { write: (line) => void logs.push(line.trimEnd()) },
  });
  const read = async () => {
    const { config } = await readConfig({ config: configPath });
    const { shown: _, ...values } = config;
    hide(secretsOf(values));
    return config;
  };
  const gateway = await startGateway({
    config: await read(),
    logger,
    periods: {
      secondLookAfterMs: 100,
      roundMs: 250,
      firstDelayMs: 300,
      ...options.periods,
    },
    async openStore(store, storeLogger, hooks) {
      if (!store.url.startsWith("sqlite:")) return openStore(store, storeLogger, hooks);
      const path = resolve(folder, store.url.slice("sqlite:".length));
      if (![path, `${path}-owner`].some((file) => existsSync(file))) writeEmptyDatabase(path);
      const { wrapStore = (opened) => opened } = options;
      const opened = await openSqliteStore({
        path,
        maxPending: store.maxPending,
        encodeJobCall,
        logger: storeLogger,
        ...hooks,
        threads: false,
      });
      return wrapStore(opened);
    },
  });
  const listeners = new Map(gateway.listeners.map(({ name, address }) => [name, address]));

  const reload = async () => {
    try {
      await gateway.reload(await read());
      logger.info("configuration reloaded");
    } catch (error) {
      logger.error({ err: error }, "reload refused");
    }
  };
  let end = () => {};
  const exited = new Promise<void>((resolve) => {
    end = resolve;
  }).then(async () => {
    await gateway.stop();
    return EXITED;
  });
  return {
    ...urlsOf(listeners),
    pid: process.pid,
    listeners,
    folder,
    configPath,
    logs,
    async reload(config) {
      await writeFile(configPath, config);
      void reload();
    },
    kill(signal = "SIGTERM") {
      if (signal === "SIGTERM") end();
      else if (signal === "SIGHUP") void reload();
      else throw new Error(`an embedded jobgate cannot be sent ${signal}`);
    },
    exited,
    async stop() {
      end();
      await exited;
      if (options.folder === undefined) await rm(folder, { recursive: true, force: true });
      return EXITED;
    },
  };
}
