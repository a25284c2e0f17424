import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createChainlinkRate } from "../../../src/parts/rates/chainlink-rate.ts";
import type { AskRate, RateProblem } from "../../../src/parts/rates/rate.ts";
import { borrowAnvil } from "../../helpers/anvil.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { deployPriceFeed, type PriceFeed } from "../../helpers/price-feed.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const MAX_AGE_MS = 3_600_000;
const NOW = 1_900_000_000_000;

const anvil = startBeforeAll(borrowAnvil);
const rpc = startBeforeAll(() => startFaultProxy({ target: anvil.rpcUrl }));
let feed: PriceFeed;
beforeAll(async () => {
  feed = await deployPriceFeed({ anvil, decimals: 8 });
});
beforeEach(() => rpc.clear());

const open = (options: { feed?: `0x${string}`; timeoutMs?: number } = {}): AskRate =>
  createChainlinkRate({
    rpcUrl: rpc.url.replace("http://", "http://user:hunter2@"),
    feed: feed.address,
    maxAgeMs: MAX_AGE_MS,
    timeoutMs: 30_000,
    clock: () => NOW,
    ...options,
  });
const problem = (ask: AskRate): Promise<Pick<RateProblem, "key" | "message">> =>
  ask().then(
    (value) => expect.unreachable(JSON.stringify(value)),
    ({ key, message }: RateProblem) => ({ key, message }),
  );

describe("a feed's answer and decimals become an exact rate", () => {
  test.each([
    [8, 320_000_000_000n, "3200"],
    [8, 320_012_345_678n, "3200.12345678"],
    [8, 1n, "0.00000001"],
    [18, 3_200_123_456_789_012_345_678n, "3200.123456789012345678"],
    [18, 2n ** 255n - 1n, "57896044618658097711785492504343953926634992332820282019728.792003956564819967"],
    [0, 3200n, "3200"],
  ])("%d decimals, answer %d", async (decimals, answer, ratePerNativeUnit) => {
    const own = await deployPriceFeed({ anvil, decimals });
    await own.setRound(answer, NOW - 5_000);
    expect(await open({ feed: own.address })()).toEqual({ ratePerNativeUnit, asOf: NOW - 5_000 });
  });
});

test("A new answer is read at the next refresh, with one call", async () => {
  const ask = open();
  await feed.setRound(1_00000000n, NOW - 1_000);
  expect(await ask()).toEqual({ ratePerNativeUnit: "1", asOf: NOW - 1_000 });
  await feed.setRound(2_50000000n, NOW);
  const before = rpc.requests.length;
  expect(await ask()).toEqual({ ratePerNativeUnit: "2.5", asOf: NOW });
  expect(rpc.requests.slice(before).map(({ rpcMethods }) => rpcMethods)).toEqual([["eth_call"]]);
});

test("Decimals are read again after a failed refresh", async () => {
  const ask = open();
  await feed.setRound(1_00000000n, NOW);
  await ask();
  await feed.setDecimals(6);
  expect((await ask()).ratePerNativeUnit).toBe("1");
  rpc.add({ fault: { kind: "cut" }, times: 1 });
  await problem(ask);
  expect((await ask()).ratePerNativeUnit).toBe("100");
  await feed.setDecimals(8);
});

describe("an unusable answer is refused", () => {
  test.each([
    ["0", 0n, NOW, "feed", "its answer is 0; expected one above 0"],
    ["below 0", -5n, NOW, "feed", "its answer is -5; expected one above 0"],
    ["a round that is not complete", 5n, 0, "feed", "its round is not complete: updatedAt is 0"],
    ["too old", 5n, NOW - 3_601_000, "max_age_secs", "its answer is 3601 s old; expected at most 3600"],
    ["ahead", 5n, NOW + 3_601_000, "feed", expect.stringMatching(/^its answer is from 3601 s ahead/)],
  ])("%s", async (_, answer, updatedAt, key, message) => {
    await feed.setRound(answer, updatedAt);
    expect(await problem(open())).toEqual({ key, message });
  });

  test("An answer at the limit of its age, past or future, is accepted", async () => {
    for (const updatedAt of [NOW - 3_600_000, NOW + 3_600_000]) {
      await feed.setRound(5n, updatedAt);
      expect((await open()()).asOf).toBe(updatedAt);
    }
  });
});

test("An address without a contract is refused as a feed", async () => {
  const ask = open({ feed: "0x000000000000000000000000000000000000dEaD" });
  expect(await problem(ask)).toEqual({ key: "feed", message: "no contract there answers as a price feed" });
});

test("The error of a feed that reverts has its reason", async () => {
  await feed.setReverts(true);
  const { key, message } = await problem(open());
  await feed.setReverts(false);
  expect(key).toBe("feed");
  expect(message).toMatch(/^reading it failed: .*No data present$/);
});

test("An RPC gives the rate again after an outage; no message holds its URL", async () => {
  await feed.setRound(7_00000000n, NOW);
  const ask = open();
  await ask();
  await rpc.goDown();
  expect(await problem(ask)).toEqual({ key: "rpc_url", message: "its RPC does not answer" });
  await rpc.comeBack();
  expect((await ask()).ratePerNativeUnit).toBe("7");
});

test("Errors distinguish an RPC that fails or stalls from a wrong feed", async () => {
  rpc.add({ fault: { kind: "answer", status: 503, body: "hunter2" } });
  expect(await problem(open())).toEqual({ key: "rpc_url", message: "its RPC answers with status 503" });
  rpc.clear();
  rpc.add({ fault: { kind: "no-answer" } });
  expect((await problem(open({ timeoutMs: 200 }))).key).toBe("rpc_url");
});

test("Another chain behind the RPC's address is refused", async () => {
  await feed.setRound(7_00000000n, NOW);
  const ask = open();
  await ask();
  rpc.add({ fault: { kind: "cut" }, times: 1 });
  await problem(ask);
  const result = "0x1";
  rpc.add({
    rpcMethod: "eth_chainId",
    fault: {
      kind: "change",
      change: (answer) => ({
        ...answer,
        body: Buffer.from(JSON.stringify({ ...JSON.parse(answer.body.toString()), result })),
      }),
    },
  });
  expect((await problem(ask)).message).toBe("the RPC is for chain 1, expected chain 84532");
});
