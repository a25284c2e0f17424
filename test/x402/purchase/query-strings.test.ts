import { expect, it } from "vitest";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTestGateway } from "../gateway-harness.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startTestGateway({ config: { facilitatorUrl: parts.facilitator.url } }));

const ask = async (method: "GET" | "POST", path: string, headers: Record<string, string> = {}) => {
  const response = await fetch(`${gateway.jobUrl()}${path}`, { method, headers });
  return { status: response.status, body: await response.json() };
};

it("A query string on a paid path is refused before anything is charged, and the payment stays good", async () => {
  const { headers } = await gateway.sign();
  const verifies = parts.facilitator.calls.length;
  const refused = { status: 400, body: { code: "query_not_allowed", charged: false, retryable: false } };
  for (const query of ["?page=2", "?=", "??", "?x=1#y"]) {
    expect(await ask("POST", query, headers)).toMatchObject(refused);
    expect(await ask("POST", query)).toMatchObject(refused);
  }
  expect((await gateway.store.totals()).payments).toMatchObject({ intent: 0, settled: 0 });
  expect(parts.facilitator.calls).toHaveLength(verifies);
  expect(await ask("POST", "", headers)).toMatchObject({ status: 202 });
});

it("A question mark with nothing after it is not a query string", async () => {
  expect(await ask("POST", "?")).toMatchObject({ status: 402, body: { code: "payment_required" } });
});

it("Requests for the job and its price refuse the query string that the paid request would be refused for", async () => {
  for (const path of ["?page=2", "/price?page=2"])
    expect(await ask("GET", path)).toMatchObject({ status: 400, body: { code: "query_not_allowed" } });
});
