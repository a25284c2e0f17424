import { describe, expect, test } from "vitest";
import { describeWrong } from "../../../src/config/wrong-value.ts";
import { mppKey, mppTable } from "../../../src/parts/mpp/config.ts";
import { loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";

const KEY = "5b1f0ad9c3e7426880b4f1d2a697c35e".repeat(2);
const load = (mpp: string, key = KEY) =>
  loadFiles(`${X402}${TOKEN}[x402.mpp]\nsecret_key = "env:MPP_KEY"\n${mpp}`, { env: { MPP_KEY: key } });

async function own(mpp: string) {
  const result = await load(mpp);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return mppTable.in(result.config);
}

test("The realm is the host of the public URL, and challenges live as long as offers, unless the table says otherwise", async () => {
  const keys = { secretKeys: [KEY] };
  expect(await own("")).toEqual({ ...keys, realm: "operator.example.com", challengeTtlSecs: 300 });
  expect(await own('realm = "shop"\nchallenge_ttl_secs = 60\n')).toEqual({
    ...keys,
    realm: "shop",
    challengeTtlSecs: 60,
  });
});

describe("A mistake of [x402.mpp] is found:", () => {
  const mistakesOf = async (mpp: string, key?: string) => {
    const result = await load(mpp, key);
    return result.ok ? [] : result.mistakes.map(({ keyPath }) => keyPath);
  };

  test.each([
    ["is short", KEY.slice(1)],
    ["is in upper case", KEY.toUpperCase()],
    ["was typed by hand", "ab".repeat(32)],
    ["is an example's", "0123456789abcdef".repeat(4)],
  ])("a key that %s", async (_what, key) => {
    expect(await mistakesOf("", key)).toEqual(["x402.mpp.secret_key"]);
  });

  test("challenges that outlive the offers", async () => {
    expect(await mistakesOf("challenge_ttl_secs = 301\n")).toEqual(["x402.mpp.challenge_ttl_secs"]);
    expect(await mistakesOf("challenge_ttl_secs = 300\n")).toEqual([]);
  });
});

test("A wrong key is described without being quoted", () => {
  const { found, hint } = describeWrong(mppKey(), "abcdef");
  expect(`${found}; ${hint}`).toMatch(/^has 6 hex digits; expected 64/);
});
