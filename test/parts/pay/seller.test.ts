import { expect, onTestFinished, test } from "vitest";
import { KnownTokens } from "../../../src/parts/pay/known-tokens.ts";
import { chargeText, failureLines, readMoney } from "../../../src/parts/pay/seller.ts";
import { listenHttp } from "../../helpers/http-listener.ts";

const TOKEN = {
  network: "eip155:84532",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  symbol: "USDC",
};

/** Lines about a failed call whose seller answers with this refund. */
async function linesOf(refund: unknown): Promise<string> {
  const seller = await listenHttp({
    handler: ({ headers }, response) => {
      const isBuyer = headers.authorization === "Bearer token";
      response.writeHead(isBuyer ? 200 : 404).end(JSON.stringify({ state: "failed", refund }));
    },
  });
  onTestFinished(() => seller.stop());
  const money = await readMoney(seller.url, { authorization: "Bearer token" });
  const lines = failureLines(money, seller.url, new KnownTokens());
  return lines.join("\n").replaceAll(seller.url, "URL");
}

test.each([
  [{ state: "owed" }, /^A refund of 0\.01 USDC is owed; URL shows when the seller has sent it$/],
  [{ state: "sending" }, /^A refund of 0\.01 USDC is on its way; URL shows its transaction$/],
  [{ state: "refunded", transaction: "0xab" }, /^0\.01 USDC was sent back by transaction 0xab$/],
  [{ state: "refund_failed", reason: "blocked" }, /^The refund of 0\.01 USDC failed: blocked$/],
  [{ state: "declined" }, /^The refund of 0\.01 USDC is declined$/],
])("A buyer of a failed job reads what becomes of the money: %o", async (refund, text) => {
  expect(await linesOf({ ...TOKEN, amount: "10000", ...refund })).toMatch(text);
});

test("Characters that move a terminal's cursor are escaped in what a seller says", async () => {
  const refund = { ...TOKEN, amount: "10000", state: "refund_failed", reason: "\u001b[2Jblocked" };
  expect(await linesOf(refund)).toBe("The refund of 0.01 USDC failed: \\u{1b}[2Jblocked");
});

test.each([undefined, { state: "owed" }, { ...TOKEN, state: "owed", amount: "1e3" }])(
  "A seller that owes no refund, or does not say which, adds nothing: %o",
  async (refund) => {
    expect(await linesOf(refund)).toBe("");
  },
);

test.each([
  [{ state: "settled" }, "0.01 USDC"],
  [{ state: "released", amount: "0" }, "nothing for this job"],
  [{ state: "failed" }, "nothing for this job: the charge of 0.01 USDC failed"],
  [
    { state: "released", amount: "0", moved: { amount: "7000", transaction: "0xab" } },
    "nothing for this job, but transaction 0xab took 0.007 USDC",
  ],
  [{ state: "authorized" }, ""],
])("A buyer reads what a metered job was charged: %o", (charge, text) => {
  expect(chargeText({ charge: { ...TOKEN, amount: "10000", ...charge } }, new KnownTokens())).toBe(text);
});
