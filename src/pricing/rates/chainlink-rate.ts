import {
  BaseError,
  ContractFunctionZeroDataError,
  formatUnits,
  HttpRequestError,
  type PublicClient,
} from "viem";
import { ChainClient } from "../../chain/chain-client.ts";
import type { Clock } from "../../core/clock.ts";
import { type AskRate, type LiveValue, RateProblem } from "./live-value.ts";

export interface ChainlinkRateOptions {
  /** May hold credentials. */
  readonly rpcUrl: string;
  readonly feed: `0x${string}`;
  /** Of the feed's value, counted from its `updatedAt`. */
  readonly maxAgeMs: number;
  /** For one question. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** The part of AggregatorV3Interface that is asked. */
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

/** Of what a feed says of itself. */
const MAX_REASON_LENGTH = 200;

/** Asks a Chainlink price feed. Its decimals are read once, and again after any question that failed. */
export function createChainlinkRate(options: ChainlinkRateOptions): AskRate {
  const { rpcUrl, feed, maxAgeMs, timeoutMs, clock } = options;
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
    // The chain client's own words, when behind the address there is another chain than before.
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
  // The short message, since the long one quotes the URL; it may hold the contract's own words.
  const words = error.shortMessage.replaceAll(/\s+/g, " ").slice(0, MAX_REASON_LENGTH);
  return new RateProblem("feed", `reading it failed: ${words}`);
}
