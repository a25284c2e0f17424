import { expect, it } from "vitest";
import { startAnotherGateway } from "../gateway-harness.ts";
import { count, LIMITS, LOOPBACK, PAYERS, payAtOnce, startHeldFacilitator } from "./held-facilitator.ts";

it("Payers behind a trusted proxy have a limit each, by the address that the proxy forwards", async () => {
  const facilitator = await startHeldFacilitator();
  const config = { facilitatorUrl: facilitator.url, facilitatorTimeoutMs: 20_000, limits: LIMITS };
  const gateway = await startAnotherGateway({ config: { ...config, trustedProxies: [LOOPBACK] } });
  const statuses = await payAtOnce(gateway, facilitator);
  expect([facilitator.held.length, count(statuses, 429)]).toEqual([PAYERS, 0]);
});

it("Without trusted proxies the header is ignored, and they are one client", async () => {
  const facilitator = await startHeldFacilitator();
  const config = { facilitatorUrl: facilitator.url, facilitatorTimeoutMs: 20_000, limits: LIMITS };
  const gateway = await startAnotherGateway({ config });
  const statuses = await payAtOnce(gateway, facilitator);
  expect([facilitator.held.length, count(statuses, 429)]).toEqual([8, PAYERS - 8]);
});

it("Unpaid requests and wrong access tokens count for the forwarded address; a reload changes the proxies", async () => {
  const limits = { ...LIMITS, maxUnpaidPerSecondPerClient: 5 };
  const gateway = await startAnotherGateway({ config: { limits, trustedProxies: [LOOPBACK] } });
  const unpaid = (from: string) => gateway.post({ "x-forwarded-for": from }).then(({ status }) => status);
  const wrong = (from: string) =>
    fetch(`${gateway.url}/x402/calls/1`, {
      headers: { authorization: "Bearer wrong", "x-forwarded-for": from },
    }).then(({ status }) => status);
  const times = async (n: number, ask: () => Promise<number>) => {
    const statuses: number[] = [];
    for (let asked = 0; asked < n; asked++) statuses.push(await ask());
    return statuses;
  };
  const burst = await Promise.all(Array.from({ length: 30 }, () => unpaid("203.0.113.1")));
  expect(count(burst, 429)).toBeGreaterThan(0);
  expect(await unpaid("203.0.113.2")).toBe(402);
  // What stands left of the proxy's own entry is the client's claim.
  const claims = await Promise.all(
    Array.from({ length: 30 }, (_, n) => unpaid(`198.51.100.${n}, 203.0.113.3`)),
  );
  expect(count(claims, 429)).toBeGreaterThan(0);

  expect(count(await times(21, () => wrong("203.0.113.1")), 429)).toBe(1);
  expect(await wrong("203.0.113.2")).toBe(404);

  await gateway.reload({ limits, trustedProxies: [] });
  const direct = await Promise.all(Array.from({ length: 30 }, (_, n) => unpaid(`203.0.113.${n}`)));
  expect(count(direct, 429)).toBeGreaterThan(0);
});
