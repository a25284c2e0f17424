import { pino } from "pino";
import type { Config } from "../config/config.ts";
import type { KeyPath } from "../config/key-path.ts";

/** Something that only shows when the peers of a configuration are asked. */
interface OnlineProblem {
  readonly path: KeyPath;
  /** What is wrong and what is expected; never holds a URL, which may hold a key. */
  readonly message: string;
}

/** Asks every peer that the configuration names whether it is there and is what the configuration says. */
export async function findOnlineProblems(config: Config): Promise<OnlineProblem[]> {
  const problems = await Promise.all([x402Problems(config), engineProblems(config), storeProblems(config)]);
  return problems.flat();
}

async function x402Problems({ x402 }: Config): Promise<OnlineProblem[]> {
  if (x402 === undefined) return [];
  const { findX402Problems } = await import("../x402/online-check.ts");
  return findX402Problems(x402);
}

async function engineProblems({ pricingEngine }: Config): Promise<OnlineProblem[]> {
  if (pricingEngine === undefined) return [];
  const { isEngineReachable } = await import("../pricing/engine-probe.ts");
  if (await isEngineReachable(pricingEngine.url, 10_000)) return [];
  return [{ path: ["pricing_engine", "url"], message: "does not answer; expected a gRPC server" }];
}

async function storeProblems({ store }: Config): Promise<OnlineProblem[]> {
  const { openStore } = await import("../open-store.ts");
  try {
    const opened = await openStore(store, pino({ level: "silent" }));
    await opened.close();
    return [];
  } catch (error) {
    // A Postgres driver does not put the password of its URL in messages, but the code says enough.
    const reason =
      (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : "unknown");
    return [{ path: ["store", "url"], message: `cannot be opened: ${reason}` }];
  }
}
