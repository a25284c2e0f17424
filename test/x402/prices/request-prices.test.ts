import { expect, test } from "vitest";
import { type AskedRequest, KeptPrices, QUESTIONS } from "../../../src/x402/prices/request-prices.ts";

const asked = (hash: string, client = "a") => ({ hash, client }) as AskedRequest;

/** Prices of which each answer costs one more. */
function startPrices() {
  const time = { now: 0 };
  const kept = new KeptPrices(() => time.now);
  let asks = 0n;
  const find = (request: AskedRequest, id = "job") =>
    kept.find(id, request, async () => ({ price: { priceWei: ++asks }, endsAt: time.now + 10 }));
  return { time, kept, find };
}

test("A price is kept for equal requests to one maker, until its end", async () => {
  const { time, find } = startPrices();
  const all = await Promise.all([
    find(asked("x")),
    find(asked("x", "b")),
    find(asked("y")),
    find(asked("x"), "other"),
  ]);
  expect(all.map(({ priceWei }) => priceWei)).toEqual([1n, 1n, 2n, 3n]);
  time.now = 9;
  expect(await find(asked("x"))).toEqual({ priceWei: 1n });
  time.now = 10;
  expect(await find(asked("x"))).toEqual({ priceWei: 4n });
});

test("A failure is not kept", async () => {
  const { kept, find } = startPrices();
  const failed = () => Promise.reject(new Error("down"));
  await expect(kept.find("job", asked("x"), failed)).rejects.toThrow("down");
  expect(await find(asked("x"))).toEqual({ priceWei: 1n });
});

test("A client with too many requests at once is refused, and another client is not", async () => {
  const { kept, find } = startPrices();
  let answer = () => {};
  const slow = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const ask = async () => {
    await slow;
    return { price: { priceWei: 5n }, endsAt: 10 };
  };
  const open = Array.from({ length: QUESTIONS.perClient }, (_, i) => kept.find("job", asked(`${i}`), ask));
  await expect(find(asked("x"))).rejects.toMatchObject({ code: "rate_limited" });
  expect(await find(asked("x", "b"))).toEqual({ priceWei: 1n });
  answer();
  expect(await Promise.all(open)).toHaveLength(QUESTIONS.perClient);
  expect(await find(asked("z"))).toEqual({ priceWei: 2n });
});
