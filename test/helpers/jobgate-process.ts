import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { jobgateProgram, type ProgramSource } from "./jobgate-program.ts";
import { WAIT_MS } from "./until.ts";

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A running jobgate: a separate process, or within this one. */
export interface Jobgate {
  readonly pid: number;
  /** Addresses by listener name as printed: `host:port`, or `unix:path`. */
  readonly listeners: ReadonlyMap<string, string>;
  readonly x402Url: string;
  readonly webhooksUrl: string;
  readonly operatorUrl: string;
  readonly runnerAddress: string;
  /** Working directory, where a relative store path ends up. */
  readonly folder: string;
  readonly configPath: string;
  /** All lines printed so far, on both streams. */
  readonly logs: readonly string[];
  /** Replaces the configuration file and asks for a reload. */
  reload(config: string): Promise<void>;
  /** Sends a signal; does not wait. */
  kill(signal?: NodeJS.Signals): void;
  /** Settles when it has ended. */
  readonly exited: Promise<Exit>;
  /** Ends it if need be, and removes its folder unless it was given. Gives how it ended. */
  stop(): Promise<Exit>;
}

/**
 * Starts `jobgate serve` as a separate process and waits for its listeners. It ends with this process.
 * Throws, with what it printed, if it ends or takes over `WAIT_MS`.
 */
export async function startJobgate(options: {
  /** TOML. Ports 0 are free ones. */
  readonly config: string;
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Further arguments of `serve`. */
  readonly args?: readonly string[];
  /** Default: a new one, removed on `stop`. Give a stopped one's folder to restart it on the same store. */
  readonly folder?: string;
  /** Default: a bundle of the sources. */
  readonly from?: ProgramSource;
  /** Names of the listeners that it waits for; default: those that the configuration asks for of a build with all parts. */
  readonly listeners?: readonly string[];
  /** Command that executes its further arguments; default: none. */
  readonly through?: readonly string[];
}): Promise<Jobgate> {
  const { config, env = {}, args = [], from, through = [] } = options;
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), "jobgate-")));
  const configPath = join(folder, "jobgate.toml");
  await writeFile(configPath, config);
  const [command = process.execPath, ...before] = [...through, process.execPath];
  const child = spawnTethered({
    command,
    args: [...before, ...jobgateProgram(from), "serve", "-c", configPath, ...args],
    env: { ...process.env, ...env },
    cwd: folder,
  });

  const logs: string[] = [];
  const listeners = new Map<string, string>();
  const expected = options.listeners ?? expectedListeners(config);
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const stop = async (): Promise<Exit> => {
    child.kill("SIGKILL");
    const exit = await exited;
    if (options.folder === undefined) await rm(folder, { recursive: true, force: true });
    return exit;
  };
  createInterface({ input: child.stderr }).on("line", (line) => logs.push(line));
  const ready = new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      logs.push(line);
      const [, name, address] = /^(\S+) listening on (\S+)$/.exec(line) ?? [];
      if (name === undefined || address === undefined) return;
      listeners.set(name, address);
      if (expected.every((listener) => listeners.has(listener))) resolve();
    });
    const fail = (what: string): void => reject(new Error(`jobgate ${what}:\n${logs.slice(-50).join("\n")}`));
    setTimeout(() => fail(`did not start within ${WAIT_MS} ms`), WAIT_MS).unref();
    child.once("close", (code, signal) => fail(`ended with ${signal ?? `code ${code}`}`));
  });
  try {
    await ready;
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    ...urlsOf(listeners),
    pid: child.pid as number,
    listeners,
    folder,
    configPath,
    logs,
    async reload(config) {
      await writeFile(configPath, config);
      child.kill("SIGHUP");
    },
    kill: (signal = "SIGTERM") => void child.kill(signal),
    exited,
    stop,
  };
}

/** URLs of the listeners, `http://undefined` for one that jobgate was not configured to have. */
export function urlsOf(listeners: ReadonlyMap<string, string>) {
  const urlOf = (name: string) => `http://${listeners.get(name)}`;
  return {
    x402Url: urlOf("x402"),
    webhooksUrl: urlOf("webhooks"),
    operatorUrl: urlOf("operator"),
    runnerAddress: String(listeners.get("runner")),
  };
}

/** Names of the listeners that a configuration asks for. */
function expectedListeners(config: string): string[] {
  const has = (table: string): boolean => new RegExp(`^(\\[${table}\\]|${table} *=)`, "m").test(config);
  return [
    ...["runner", "operator"],
    ...["x402", "webhooks"].filter(has),
    ...(has("pricing_engine") ? ["pricing"] : []),
  ];
}
