import { expect, it } from "vitest";
import { buyTool } from "../../helpers/mcp.ts";
import { startAnotherGateway } from "../../x402/gateway-harness.ts";
import {
  count,
  LIMITS,
  LOOPBACK,
  PAYERS,
  payAtOnce,
  startHeldFacilitator,
} from "../../x402/purchase/held-facilitator.ts";
import { soldByMcp } from "./tables.ts";

it("A forwarded address in _meta of a tool call is ignored: only the proxy may send it", async () => {
  const facilitator = await startHeldFacilitator();
  const config = { facilitatorUrl: facilitator.url, facilitatorTimeoutMs: 20_000, limits: LIMITS };
  const gateway = await startAnotherGateway({
    config: { ...config, parts: soldByMcp(), trustedProxies: [LOOPBACK] },
  });
  const statuses = await payAtOnce(gateway, facilitator, async (_gateway, { headers }, n) => {
    const sent = { ...headers, "x-forwarded-for": `203.0.113.${n}` };
    const { status } = await buyTool(`${gateway.url}/mcp`, { name: "job-1-0", body: "work", headers: sent });
    return Number(status);
  });
  expect([facilitator.held.length, count(statuses, 429)]).toEqual([8, PAYERS - 8]);
});
