import { beforeAll, expect, test } from "vitest";
import { loadMethods } from "../../../src/load-parts.ts";
import type { RateSource } from "../../../src/parts/rates/config.ts";
import { findRateProblem } from "../../../src/parts/rates/live-rate.ts";
import { part } from "../../../src/parts/rates/part.ts";
import { loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";
import { borrowAnvil } from "../../helpers/anvil.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { deployPriceFeed, type PriceFeed } from "../../helpers/price-feed.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const anvil = startBeforeAll(borrowAnvil);
const server = startBeforeAll(() =>
  listenHttp({ handler: (_, response) => response.end('{"data":{"rate":"3200"}}') }),
);
let feed: PriceFeed;
beforeAll(async () => {
  feed = await deployPriceFeed({ anvil, decimals: 8 });
});

const times = { maxAgeMs: 3_600_000, refreshMs: 5_000 };
const chainlink = (changes: object = {}): RateSource => ({
  kind: "chainlink",
  rpcUrl: anvil.rpcUrl,
  feed: feed.address,
  ...times,
  ...changes,
});
const http = (changes: object = {}): RateSource => ({
  kind: "http",
  url: server.url,
  pointer: "/data/rate",
  ...times,
  ...changes,
});

test("A working source has no problem", async () => {
  await feed.setRound(3200_00000000n);
  expect(await findRateProblem(chainlink())).toBeUndefined();
  expect(await findRateProblem(http())).toBeUndefined();
});

test("A wrong or stale feed, or an unreachable RPC, is reported at the key to correct", async () => {
  const nobody = "0x000000000000000000000000000000000000dEaD";
  expect(await findRateProblem(chainlink({ feed: nobody }))).toEqual({
    path: ["rate_source", "chainlink", "feed"],
    message: "gives no rate: no contract there answers as a price feed",
  });
  expect(await findRateProblem(chainlink({ rpcUrl: "http://127.0.0.1:1" }))).toEqual({
    path: ["rate_source", "chainlink", "rpc_url"],
    message: "gives no rate: its RPC does not answer (127.0.0.1:1: ECONNREFUSED)",
  });
  await feed.setRound(3200_00000000n, Date.now() - 7_200_000);
  const stale = await findRateProblem(chainlink());
  expect(stale?.path).toEqual(["rate_source", "chainlink", "max_age_secs"]);
  expect(stale?.message).toMatch(/^gives no rate: its answer is 720\d s old; expected at most 3600$/);
});

test("A URL without an answer, or a pointer to nothing, is reported at the key to correct", async () => {
  expect(await findRateProblem(http({ url: "http://127.0.0.1:2" }))).toEqual({
    path: ["rate_source", "http", "url"],
    message: "gives no rate: it does not answer (127.0.0.1:2: ECONNREFUSED)",
  });
  expect(await findRateProblem(http({ pointer: "/rate" }))).toEqual({
    path: ["rate_source", "http", "pointer"],
    message: "gives no rate: its answer has nothing at the pointer",
  });
});

test("The part queries each live source, and names the token of a source that gives no rate", async () => {
  const silent = `{ http = { url = "http://127.0.0.1:2", pointer = "/rate", max_age_secs = 60 } }`;
  const live = TOKEN.replace(/rate_per_native_unit = .*/, `rate_source = ${silent}`).replace(
    /asset = .*/,
    `asset = "${feed.address}"`,
  );
  const loaded = await loadFiles(`${X402}${TOKEN}${live}`);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  expect(
    (
      await part.checkPeers?.(loaded.config, loadMethods, () =>
        Promise.reject(new Error("there is no store")),
      )
    )?.problems,
  ).toEqual([
    {
      path: ["x402", "accepted_tokens", 1, "rate_source", "http", "url"],
      message: "gives no rate: it does not answer (127.0.0.1:2: ECONNREFUSED)",
    },
  ]);
});
