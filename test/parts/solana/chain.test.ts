import { expect, it, onTestFinished, vi } from "vitest";
import type { Rpc } from "../../../src/chain/rpc.ts";
import { latestBlockhash } from "../../../src/parts/solana/chain.ts";

const NOW = 1_800_000_000_000;

/** Reads a blockhash from a node. @param options `blockTime`: throws where the node has no times */
async function readAt({
  answersAfterMs = 0,
  blockTime,
}: {
  answersAfterMs?: number;
  blockTime?: () => unknown;
}) {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  onTestFinished(() => void vi.useRealTimers());
  const answers: Readonly<Record<string, () => unknown>> = {
    getLatestBlockhash: () => ({
      context: { slot: 7 },
      value: { blockhash: "hash", lastValidBlockHeight: 157 },
    }),
    getBlockTime: blockTime ?? (() => NOW / 1_000),
  };
  const rpc = {
    async call(method: string) {
      vi.setSystemTime(Date.now() + answersAfterMs);
      return answers[method]?.();
    },
  };
  const { readAt, fields } = await latestBlockhash(rpc as unknown as Rpc);
  expect(fields).toEqual({ recentBlockhash: "hash", lastValidBlockHeight: "157" });
  return readAt - NOW;
}

it("A blockhash is as old as the call for it, however late the node answers", async () => {
  expect(await readAt({ answersAfterMs: 9_000 })).toBe(0);
});

it("A blockhash of a node that lags is as old as its block, but for 5 s by which times of blocks are off", async () => {
  expect(await readAt({ blockTime: () => NOW / 1_000 - 30 })).toBe(-25_000);
  expect(await readAt({ blockTime: () => NOW / 1_000 - 4 })).toBe(0);
  expect(await readAt({ blockTime: () => NOW / 1_000 + 60 })).toBe(0);
});

it("A blockhash of a node that seems to lag by an hour, as at a clock that is fast, can be paid with for some time", async () => {
  expect(await readAt({ blockTime: () => NOW / 1_000 - 3_600 })).toBe(-30_000);
});

it("A blockhash of a node that has no times of blocks is as old as the call for it", async () => {
  expect(await readAt({ blockTime: () => null })).toBe(0);
  const fail = () => {
    throw new Error("block not available");
  };
  expect(await readAt({ blockTime: fail })).toBe(0);
});
