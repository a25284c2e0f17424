import {
  BaseError,
  ContractFunctionZeroDataError,
  formatUnits,
  HttpRequestError,
  type PublicClient,
} from "viem";
import { ChainClient } from "../../chain/chain-client.ts";
import type { Clock } from "../../core/clock.ts";
import { type AskRate, type LiveValue, RateProblem } from "./rate.ts";

/** The part of AggregatorV3Interface that jobgate calls. */
const AGGREGATOR_ABI = [
  {
    type: "function",
    name: "decimals",
    stateMutability: "view",
    inputs: [],
    outputs: [{ type: "uint8" }],
  },
  {
    type: "function",
    name: "latestRoundData",
    stateMutability: "view",
    inputs: [],
    outputs: [
      { name: "roundId", type: "uint80" },
      { name: "answer", type: "int256" },
      { name: "startedAt", type: "uint256" },
      { name: "updatedAt", type: "uint256" },
      { name: "answeredInRound", type: "uint80" },
    ],
  },
] as const;

/** Longest text of a feed's own that is kept. */
const MAX_REASON_LENGTH = 200;

/**
 * Source that asks a Chainlink price feed. It reads the feed's decimals once, and again after a question that failed.
 * @param source `rpcUrl` may hold credentials; `maxAgeMs` counts from the feed's `updatedAt`
 */
export function createChainlinkRate(source: {
  readonly rpcUrl: string;
  readonly feed: `0x${string}`;
  readonly maxAgeMs: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
}): AskRate {
  const { rpcUrl, feed, maxAgeMs, timeoutMs, clock } = source;
  // A question is at most two calls in a row: which chain it is, then the feed.
  const chain = new ChainClient({ rpcUrl, timeoutMs: timeoutMs / 2 });
  let decimals: number | undefined;

  async function read(): Promise<LiveValue> {
    const client = await chain.connect();
    const [places, round] = await Promise.all([
      decimals ?? readDecimals(client, feed),
      client.readContract({ address: feed, abi: AGGREGATOR_ABI, functionName: "latestRoundData" }),
    ]);
    decimals = places;
    const [, answer, , updatedAt] = round;
    if (answer <= 0n) throw new RateProblem("feed", `its answer is ${answer}; expected one above 0`);
    const asOf = Number(updatedAt) * 1000;
    checkAge(clock() - asOf, maxAgeMs, updatedAt);
    return { ratePerNativeUnit: formatUnits(answer, places), asOf };
  }

  return async () => {
    try {
      return await read();
    } catch (error) {
      decimals = undefined;
      throw error instanceof RateProblem ? error : problemOf(error);
    }
  };
}

function readDecimals(client: PublicClient, feed: `0x${string}`): Promise<number> {
  return client.readContract({ address: feed, abi: AGGREGATOR_ABI, functionName: "decimals" });
}

/** @throws RateProblem for a value that is too old, or further ahead than a clock may be off */
function checkAge(ageMs: number, maxAgeMs: number, updatedAt: bigint): void {
  if (updatedAt === 0n) throw new RateProblem("feed", "its round is not complete: updatedAt is 0");
  const secs = (ms: number) => Math.ceil(ms / 1000);
  if (ageMs > maxAgeMs) {
    throw new RateProblem(
      "max_age_secs",
      `its answer is ${secs(ageMs)} s old; expected at most ${secs(maxAgeMs)}`,
    );
  }
  if (-ageMs > maxAgeMs) {
    throw new RateProblem(
      "feed",
      `its answer is from ${secs(-ageMs)} s ahead: is this machine's clock right?`,
    );
  }
}

function problemOf(error: unknown): RateProblem {
  if (!(error instanceof BaseError)) {
    // The chain client says so when another chain than before is behind the address.
    const reason = error instanceof Error && error.message.startsWith("the RPC is for chain");
    return new RateProblem("rpc_url", reason ? error.message : "its RPC could not be asked");
  }
  if (error.walk((cause) => cause instanceof ContractFunctionZeroDataError) !== null) {
    return new RateProblem("feed", "no contract there answers as a price feed");
  }
  const http = error.walk((cause) => cause instanceof HttpRequestError);
  if (http instanceof HttpRequestError) {
    const status = http.status === undefined ? "does not answer" : `answers with status ${http.status}`;
    return new RateProblem("rpc_url", `its RPC ${status}`);
  }
  // The short message, because the long one quotes the URL. It may hold text of the contract.
  const words = error.shortMessage.replaceAll(/\s+/g, " ").slice(0, MAX_REASON_LENGTH);
  return new RateProblem("feed", `reading it failed: ${words}`);
}
