import type { ServerResponse } from "node:http";
import { expect, it, onTestFinished } from "vitest";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../../helpers/clients.ts";
import { soldByMcp } from "../../helpers/door-tables.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { buyTool } from "../../helpers/mcp.ts";
import { startAnotherGateway, type TestGateway } from "../gateway-harness.ts";

const LIMITS = { maxUnpaidPerSecondPerClient: 1_000, maxVerifiesPerClient: 8, maxVerifies: 64 };
const LOOPBACK = { address: "127.0.0.1", prefixBits: 32, family: "ipv4" } as const;
const PAYERS = 12;

/** Starts a facilitator that answers no verification before `release` is called. */
async function startHeldFacilitator() {
  const held: ServerResponse[] = [];
  let arrived = () => {};
  const listener = await listenHttp({
    handler(_request, response) {
      held.push(response);
      arrived();
    },
  });
  onTestFinished(() => listener.stop());
  return {
    url: listener.url,
    held,
    onArrival(callback: () => void) {
      arrived = callback;
    },
    release() {
      for (const response of held) response.writeHead(500).end();
    },
  };
}

type Send = (gateway: TestGateway, payment: Payment, n: number) => Promise<number>;
type Payment = Awaited<ReturnType<typeof signV2Payment>>;

const forwarded: Send = async (gateway, { headers }, n) =>
  (await gateway.post({ ...headers, "x-forwarded-for": `6.6.6.6, 203.0.113.${n}` })).status;

/** Sends payments of many clients at once, each forwarded from an address of its own. @returns their statuses */
async function payAtOnce(
  gateway: TestGateway,
  facilitator: Awaited<ReturnType<typeof startHeldFacilitator>>,
  send = forwarded,
): Promise<number[]> {
  const { v2 } = await requestOffer(gateway.jobUrl());
  const payments = await Promise.all(
    Array.from({ length: PAYERS }, () => signV2Payment({ offer: v2, account: accounts.payer })),
  );
  let answered = 0;
  const releaseOnceAllAreIn = () => {
    if (answered + facilitator.held.length === PAYERS) facilitator.release();
  };
  facilitator.onArrival(releaseOnceAllAreIn);
  return Promise.all(
    payments.map(async (payment, n) => {
      const status = await send(gateway, payment, n);
      answered++;
      releaseOnceAllAreIn();
      return status;
    }),
  );
}

const count = (statuses: readonly number[], status: number) => statuses.filter((it) => it === status).length;

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
