import { pino } from "pino";
import type { PeerProblem, X402Config } from "../../config/config.ts";
import { systemClock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { PricingEngineConfig, QuoteSigning } from "./config.ts";
import { isEngineReachable } from "./engine-channel.ts";
import { EngineClient } from "./engine-client.ts";
import { EngineQuotes, type QuoteAnswer } from "./engine-quotes.ts";
import { MAX_QUOTED_JOB_INDEX } from "./job-quote.ts";
import { ProofMaker } from "./proof-maker.ts";

const TIMEOUT_MS = 10_000;
/** Largest number of jobs for which the engine is queried until it has a price for one. */
const MAX_JOBS = 5;

/** Checks that the pricing engine answers, and that a quote of it passes the checks of the configuration. */
export async function findEngineProblems(
  { url, signing, proofOfWorkBits }: PricingEngineConfig,
  jobs: readonly JobKey[],
): Promise<PeerProblem[]> {
  if (!(await isEngineReachable(url, TIMEOUT_MS)))
    return [problem("url", `does not answer (${new URL(url).host}); expected a gRPC server`)];
  if (signing === undefined) return [];
  const logger = pino({ level: "silent" });
  const client = new EngineClient(url);
  const proofs = new ProofMaker({ difficulty: proofOfWorkBits, clock: systemClock, logger });
  const quotes = new EngineQuotes({ client, proofs, signing, clock: systemClock });
  try {
    for (const job of jobs.slice(0, MAX_JOBS)) {
      const answer = await quotes.ask(job);
      if (answer.kind !== "unpriced") return problemsOf(answer, signing);
    }
    return [];
  } finally {
    client.stop();
    await proofs.stop();
  }
}

/** Returns jobs that the engine is likely to have a price for: the jobs of the configuration, then the first of all jobs. */
export function jobsToAskFor(serviceId: bigint, x402: X402Config | undefined): JobKey[] {
  const enabled = (x402?.jobPolicies ?? []).filter(({ invocationMode }) => invocationMode !== "disabled");
  const jobs = [...enabled, { serviceId, jobIndex: 0 }, { serviceId, jobIndex: 1 }];
  return jobs.filter(({ jobIndex }) => jobIndex <= MAX_QUOTED_JOB_INDEX);
}

function problemsOf(
  answer: Exclude<QuoteAnswer, { kind: "unpriced" }>,
  { operatorAddress, chainId, verifyingContract }: QuoteSigning,
): PeerProblem[] {
  switch (answer.kind) {
    case "quote":
      return [];
    case "unavailable":
      return [problem("url", `returned no quote (${answer.reason}); expected one`)];
    case "untrustworthy":
      return [
        problem(
          "verifying_contract",
          `does not fit the engine's quotes: ${answer.reason}; expected chain_id, verifying_contract and ` +
            `operator_address as the engine signs with, not ${chainId}, ${verifyingContract} and ${operatorAddress}`,
        ),
      ];
  }
}

function problem(key: string, message: string): PeerProblem {
  return { path: ["pricing_engine", key], message };
}
