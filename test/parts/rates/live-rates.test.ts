import { setTimeout as sleep } from "node:timers/promises";
import pino from "pino";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { AcceptedToken } from "../../../src/config/config.ts";
import type { RateSource } from "../../../src/parts/rates/config.ts";
import { LiveRates } from "../../../src/parts/rates/live-rates.ts";
import { TokenRates } from "../../../src/x402/prices/token-rates.ts";
import { borrowAnvil } from "../../helpers/anvil.ts";
import { eventually } from "../../helpers/eventually.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { deployPriceFeed, type PriceFeed } from "../../helpers/price-feed.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { EURC, USDC } from "../../x402/payments.ts";

const REFRESH_MS = 20;
const MAX_AGE_MS = 60_000;

/** Answer of the URL: a rate or a status. */
let answers: string | number;
let asked: string[];
/** Requests since this test began, by path. One of an earlier test may arrive late. */
let questions: Record<string, { open: number; mostOpen: number }>;
let delayMs: number;

let now: number;
let logged: Record<string, unknown>[];
let board: TokenRates;

const server = startBeforeAll(() =>
  listenHttp({
    handler: (request, response) => {
      const { url = "" } = request;
      asked.push(url);
      questions[url] ??= { open: 0, mostOpen: 0 };
      const mine = questions[url];
      mine.mostOpen = Math.max(mine.mostOpen, ++mine.open);
      void sleep(delayMs, undefined, { ref: false }).then(() => {
        mine.open--;
        if (typeof answers === "number") response.writeHead(answers).end();
        else response.end(JSON.stringify({ rate: answers }));
      });
    },
  }),
);
beforeEach(() => {
  [answers, asked, delayMs] = ["3200", [], 0];
  questions = {};
  now = 1_900_000_000_000;
  logged = [];
  const logger = pino({}, { write: (line) => void logged.push(JSON.parse(line)) });
  board = new TokenRates(new LiveRates({ clock: () => now, logger }));
});
afterEach(() => board.stop());

const http = (path = "/r", changes: object = {}): RateSource => ({
  kind: "http",
  url: server.url.replace("http://", "http://user:hunter2@") + path,
  pointer: "/rate",
  maxAgeMs: MAX_AGE_MS,
  refreshMs: REFRESH_MS,
  ...changes,
});
const usdc = (rate: RateSource): AcceptedToken => ({ ...USDC, rate });
const eurc = (rate: RateSource): AcceptedToken => ({ ...EURC, rate });
const rateOf = (token: AcceptedToken) => board.rateOf(token)?.ratePerNativeUnit;
/** Until a question that begins from now on has been answered. */
async function askedAgain(): Promise<void> {
  const before = asked.length;
  await eventually(() => expect(asked.length).toBeGreaterThan(before + 1));
}

describe("a live rate", () => {
  test("It is known once watched, and follows its source", async () => {
    const token = usdc(http());
    expect(board.rateOf(token)).toBeUndefined();
    await board.watch([token]);
    expect(board.rateOf(token)).toEqual({ ratePerNativeUnit: "3200", asOf: now });
    answers = "3300.5";
    await eventually(() => expect(rateOf(token)).toBe("3300.5"));
  });

  test("The last good value is used until it is too old, then none, and then the next", async () => {
    const token = usdc(http());
    await board.watch([token]);
    const asOf = now;
    answers = 500;
    await askedAgain();
    now = asOf + MAX_AGE_MS;
    expect(board.rateOf(token)).toEqual({ ratePerNativeUnit: "3200", asOf });
    expect(board.report()[0]).toMatchObject({
      usable: true,
      problem: "it answers with status 500; expected 200",
    });
    now += 1;
    expect(board.rateOf(token)).toBeUndefined();
    expect(board.report()[0]).toMatchObject({
      usable: false,
      rate: { ratePerNativeUnit: "3200", asOf },
      problem: "it answers with status 500; expected 200",
    });
    answers = "3100";
    await eventually(() => expect(board.rateOf(token)).toEqual({ ratePerNativeUnit: "3100", asOf: now }));
    expect(board.report()[0]).not.toHaveProperty("problem");
  });

  test("A source that fails from the start does not prevent the start, and has no rate until it answers", async () => {
    answers = "nonsense";
    const token = usdc(http());
    await board.watch([token]);
    expect(board.rateOf(token)).toBeUndefined();
    expect(board.report()[0]).toMatchObject({
      usable: false,
      problem: expect.stringMatching(/is not a rate/),
    });
    expect(board.report()[0]).not.toHaveProperty("rate");
    answers = "3200";
    await eventually(() => expect(rateOf(token)).toBe("3200"));
  });

  test("A failure is logged when it begins and ends, without the URL", async () => {
    const token = usdc(http());
    await board.watch([token]);
    expect(logged).toEqual([]);
    answers = 404;
    for (let round = 0; round < 3; round++) await askedAgain();
    answers = "1";
    await eventually(() => expect(rateOf(token)).toBe("1"));
    for (let round = 0; round < 2; round++) await askedAgain();
    expect(logged.map(({ msg, level }) => [msg, level])).toEqual([
      ["a live rate cannot be refreshed", 40],
      ["a live rate is refreshed again", 30],
    ]);
    expect(logged[0]).toMatchObject({
      source: "http",
      tokens: ["eip155:84532 USDC"],
      problem: "it answers with status 404; expected 200",
    });
    expect(JSON.stringify([logged, board.report()])).not.toMatch(/hunter2|127\.0\.0\.1/);
  });

  test("One refresh runs at a time, and the next follows a slow one at once", async () => {
    delayMs = 3 * REFRESH_MS;
    await board.watch([usdc(http("/slow"))]);
    for (let round = 0; round < 3; round++) await askedAgain();
    expect(questions["/slow"]?.mostOpen).toBe(1);
  });

  test("Two tokens with the same source share its refreshes, and another source has its own", async () => {
    const slow = { refreshMs: 60_000, maxAgeMs: 120_000 };
    const [one, same, other] = [usdc(http("/r", slow)), eurc(http("/r", slow)), eurc(http("/o", slow))];
    await board.watch([one, same, other]);
    expect([one, same, other].map(rateOf)).toEqual(["3200", "3200", "3200"]);
    expect(asked.sort()).toEqual(["/o", "/r"]);
  });
});

describe("a new configuration", () => {
  const slow = { refreshMs: 60_000, maxAgeMs: 120_000 };

  test("An unchanged source keeps its value without a new request", async () => {
    await board.watch([usdc(http("/r", slow))]);
    answers = "9";
    const [kept, added] = [eurc(http("/r", slow)), usdc(http("/new", slow))];
    await board.watch([kept, added]);
    expect([kept, added].map(rateOf)).toEqual(["3200", "9"]);
    expect(asked).toEqual(["/r", "/new"]);
  });

  test("A removed source is no longer queried, but its rate is used until the new rates are known", async () => {
    const [old, next] = [usdc(http("/old")), usdc(http("/next"))];
    await board.watch([old]);
    delayMs = 50;
    const watching = board.watch([next]);
    expect(rateOf(old)).toBe("3200");
    expect(rateOf(next)).toBeUndefined();
    await watching;
    expect(rateOf(old)).toBeUndefined();
    expect(rateOf(next)).toBe("3200");
    delayMs = 0;
    await eventually(() => expect(Object.values(questions).every(({ open }) => open === 0)).toBe(true));
    const before = asked.length;
    for (let round = 0; round < 3; round++) await askedAgain();
    expect(new Set(asked.slice(before))).toEqual(new Set(["/next"]));
  });

  test("Watching waits a few seconds for a source that does not answer, not for ever", async () => {
    delayMs = 60_000;
    const token = usdc(http("/r", { maxAgeMs: 1_000, refreshMs: 250 }));
    await board.watch([token]);
    expect(board.report()[0]?.problem).toBe("it does not answer within 1 s");
  });
});

test("A stopped gateway queries no source, and logs nothing about late answers", async () => {
  await board.watch([usdc(http())]);
  delayMs = 30;
  answers = 500;
  await eventually(() => expect(questions["/r"]?.open).toBe(1));
  board.stop();
  asked = [];
  // Another gateway sends five requests meanwhile, and the late answer has come.
  const other = new TokenRates(new LiveRates({ clock: () => now, logger: pino({ level: "silent" }) }));
  await other.watch([usdc(http("/other"))]);
  await eventually(() => expect(asked.length).toBeGreaterThanOrEqual(5));
  other.stop();
  expect(questions["/r"]?.open).toBe(0);
  expect(asked).not.toContain("/r");
  expect(logged).toEqual([]);
});

describe("a feed on a chain", () => {
  const anvil = startBeforeAll(borrowAnvil);
  const rpc = startBeforeAll(() => startFaultProxy({ target: anvil.rpcUrl }));
  let feed: PriceFeed;
  beforeAll(async () => {
    feed = await deployPriceFeed({ anvil, decimals: 8 });
  });

  const source = (): RateSource => ({
    kind: "chainlink",
    rpcUrl: rpc.url,
    feed: feed.address,
    maxAgeMs: MAX_AGE_MS,
    refreshMs: REFRESH_MS,
  });

  test("Its rate changes, survives an RPC outage up to its maximum age, disappears, and returns", async () => {
    const token = usdc(source());
    const updatedAt = now - 10_000;
    await feed.setRound(3200_00000000n, updatedAt);
    await board.watch([token]);
    expect(board.rateOf(token)).toEqual({ ratePerNativeUnit: "3200", asOf: updatedAt });
    await feed.setRound(3300_00000000n, updatedAt);
    await eventually(() => expect(rateOf(token)).toBe("3300"));

    await rpc.goDown();
    await eventually(() => expect(board.report()[0]?.problem).toBe("its RPC does not answer"));
    now = updatedAt + MAX_AGE_MS;
    expect(rateOf(token)).toBe("3300");
    now += 1;
    expect(rateOf(token)).toBeUndefined();

    await rpc.comeBack();
    await eventually(() => expect(board.report()[0]?.problem).toMatch(/^its answer is 61 s old/));
    expect(rateOf(token)).toBeUndefined();
    await feed.setRound(3400_00000000n, now);
    await eventually(() => expect(rateOf(token)).toBe("3400"));
    expect(logged.map(({ msg }) => msg)).toEqual([
      "a live rate cannot be refreshed",
      "a live rate is refreshed again",
    ]);
  });

  test("An invalid round keeps the last good value", async () => {
    const token = usdc(source());
    await feed.setRound(3200_00000000n, now);
    await board.watch([token]);
    await feed.setRound(-1n, now);
    await eventually(() => expect(board.report()[0]?.problem).toMatch(/its answer is -1/));
    expect(board.rateOf(token)).toEqual({ ratePerNativeUnit: "3200", asOf: now });
  });
});
