import { expect, test } from "vitest";
import { conversionText, refusalsText } from "../../../../src/parts/operator/commands/status.ts";

test("The share of the shown prices that were paid is of paid jobs alone, and is absent before the first price", () => {
  const webhook = { origin: "webhook", offers: 0n, accepted: 70n };
  const unasked = { origin: "x402", offers: 0n, accepted: 0n };
  expect(conversionText([webhook, unasked])).toBe("");
  const jobs = [
    { origin: "x402", offers: 30n, accepted: 1n },
    { origin: "x402", offers: 10n, accepted: 4n },
  ];
  expect(conversionText([webhook, unasked, ...jobs])).toBe("40 since start, 5 jobs bought (12.5 %)");
});

test("The status names the jobs and endpoints that refused requests, with the codes, the most requests first", () => {
  const refusing = (path: string, name: string, ...codes: [string, bigint][]) => {
    const origin = path.startsWith("/") ? "webhook" : "x402";
    return { path, name, origin, refusals: codes.map(([code, count]) => ({ code, count })) };
  };
  const words = refusing("http://127.0.0.1/words", "POST /words", ["schema_mismatch", 2n]);
  const alerts = refusing("/hooks/alerts", "Alerts", ["unauthorized", 3n], ["rate_limited", 1n]);
  const quiet = refusing("/hooks/quiet", "");
  expect(refusalsText([quiet])).toBe("");
  expect(refusalsText([words, quiet, alerts])).toBe(
    "/hooks/alerts (3 unauthorized, 1 rate_limited), POST /words (2 schema_mismatch)",
  );
  expect(refusalsText(Array(7).fill(words))).toMatch(/, 2 others$/);
});
