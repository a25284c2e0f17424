import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type Jobgate, startJobgate } from "../../helpers/jobgate-process.ts";
import { type JobHandler, type Runner, startRunner } from "../../helpers/runner.ts";
import { type SolanaParts, type SolanaShop, startSolanaShop } from "./harness.ts";

/** A shop whose jobgate is a process of its own, which is killed and started again. Ends with its test. */
export interface RestartedShop {
  readonly shop: SolanaShop;
  /** The process that runs, or ran last. Requests to the shop go to it. */
  readonly life: Jobgate;
  /** Runners of all processes, in order. */
  readonly runners: readonly Runner[];
  /** Starts a process on the same store, with a runner. Requests to the shop go to it from then on. */
  startAgain(): Promise<Runner>;
}

/** @param options `crashAt`: the point at which the first process kills itself */
export async function startRestartedShop(
  parts: SolanaParts,
  {
    crashAt,
    edit = (config) => config,
    more,
    handle,
  }: {
    readonly crashAt: string;
    readonly edit?: (config: string) => string | Promise<string>;
    readonly more?: string;
    readonly handle?: JobHandler;
  },
): Promise<RestartedShop> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-solana-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let config = "";
  const lives: Jobgate[] = [];
  const current = () => lives.at(-1) as Jobgate;
  const shop = await startSolanaShop(parts, {
    ...(more !== undefined && { more }),
    ...(handle && { handle }),
    async start(options) {
      config = await edit(options.config);
      lives.push(await startJobgate({ config, folder, env: { JOBGATE_CRASH_AT: crashAt } }));
      return new Proxy({} as Jobgate, { get: (_, name) => Reflect.get(current(), name) });
    },
  });
  const runners = [shop.runner];
  onTestFinished(async () => {
    await Promise.all(runners.map((runner) => runner.stop()));
    await Promise.all(lives.map((life) => life.stop()));
    await shop.stop();
  });
  return {
    shop,
    get life() {
      return current();
    },
    runners,
    async startAgain() {
      const life = await startJobgate({ config, folder });
      lives.push(life);
      const runner = await startRunner({ address: life.runnerAddress, ...(handle && { handle }) });
      runners.push(runner);
      return runner;
    },
  };
}
