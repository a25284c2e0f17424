import { expect, test } from "vitest";
import { conversionText } from "../../../../src/parts/operator/commands/status.ts";

test("The share of the prices shown that were paid is that of the paid jobs, and absent before the first", () => {
  const webhook = { origin: "webhook", offers: 0n, accepted: 70n };
  const unasked = { origin: "x402", offers: 0n, accepted: 0n };
  expect(conversionText([webhook, unasked])).toBe("");
  const jobs = [
    { origin: "x402", offers: 30n, accepted: 1n },
    { origin: "x402", offers: 10n, accepted: 4n },
  ];
  expect(conversionText([webhook, unasked, ...jobs])).toBe("40 since start, 5 jobs bought (12.5 %)");
});
