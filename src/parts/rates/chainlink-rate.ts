import { formatUnits } from "viem";
import { ChainClient } from "../../chain/chain-client.ts";
import { type Rpc, RpcError, RpcUnanswered } from "../../chain/rpc.ts";
import type { Clock } from "../../core/clock.ts";
import { type AskRate, type LiveValue, RateProblem } from "./rate.ts";

/** `decimals()` of AggregatorV3Interface, which returns a uint8. */
const DECIMALS = "0x313ce567";
/** `latestRoundData()`, which returns roundId, answer (int256), startedAt, updatedAt and answeredInRound, a word each. */
const LATEST_ROUND_DATA = "0xfeaf968c";
const WORD_DIGITS = 64;
const MAX_DECIMALS = 255n;

/** Longest part of a feed's own text that is kept. */
const MAX_REASON_LENGTH = 200;

/**
 * Source that queries a Chainlink price feed. It reads the feed's decimals once, and again after a failed query.
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
  // A query makes at most two calls in a row: it reads the chain's ID, and then the feed.
  const chain = new ChainClient({ rpcUrl, timeoutMs: timeoutMs / 2 });
  let decimals: number | undefined;

  async function read(): Promise<LiveValue> {
    const rpc = await chain.connect();
    const [places, [, answerWord, , updatedAt]] = await Promise.all([
      decimals ?? readDecimals(rpc, feed),
      readWords(rpc, feed, LATEST_ROUND_DATA, 5),
    ]);
    decimals = places;
    const answer = BigInt.asIntN(256, answerWord as bigint);
    if (answer <= 0n) throw new RateProblem("feed", `its answer is ${answer}; expected one above 0`);
    const asOf = Number(updatedAt) * 1000;
    checkAge(clock() - asOf, maxAgeMs, updatedAt as bigint);
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

async function readDecimals(rpc: Rpc, feed: string): Promise<number> {
  const [decimals = 0n] = await readWords(rpc, feed, DECIMALS, 1);
  if (decimals > MAX_DECIMALS) throw new RateProblem("feed", `it has ${decimals} decimals; expected a uint8`);
  return Number(decimals);
}

/** Calls the feed and returns the first words of its answer. */
async function readWords(rpc: Rpc, feed: string, data: string, count: number): Promise<bigint[]> {
  const digits = (await rpc.callContract(feed, data)).slice(2);
  if (digits === "") throw new RateProblem("feed", "no contract there answers as a price feed");
  if (digits.length < count * WORD_DIGITS) {
    throw new RateProblem("feed", "reading it failed: its answer is too short");
  }
  return Array.from({ length: count }, (_, i) =>
    BigInt(`0x${digits.slice(i * WORD_DIGITS, (i + 1) * WORD_DIGITS)}`),
  );
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
  if (error instanceof RpcUnanswered) {
    const { status } = error;
    const what = status === undefined ? "does not answer" : `answers with status ${status}`;
    return new RateProblem("rpc_url", `its RPC ${what}`, error);
  }
  if (error instanceof RpcError) {
    // The details may hold text of the contract.
    const words = error.details.replaceAll(/\s+/g, " ").slice(0, MAX_REASON_LENGTH);
    return new RateProblem("feed", `reading it failed: ${words}`);
  }
  // The chain client throws this error if another chain than before answers at the address.
  const reason = error instanceof Error && error.message.startsWith("the RPC is for chain");
  return new RateProblem("rpc_url", reason ? error.message : "its RPC could not be queried");
}
