import { decodePaymentRequiredHeader } from "@x402/core/http";
import { describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch, requestOffer, signV1Payment, signV2Payment } from "../helpers/clients.ts";
import { sendRpc } from "../helpers/mcp.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { inDollars, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const JOBS = `
[[jobs]]
job_index = 10
price = { base = "$0.002", per = "body:KiB", each = "$0.001", min = "$0.01", max = "$1" }
[[jobs]]
job_index = 11
price = { per = "json:/n", each = "$0.002", min = "$0.01", max = "$5" }
[[jobs]]
job_index = 12
price = { per = "json:/text:characters", tiers = [{ up_to = 10, price = "$0.01" }, { price = "$0.05" }] }
[[jobs]]
route = "GET /weather/{city}"
price = { of = "query:units", cases = { kelvin = "$0.02" }, other = "$0.01" }
answer = "result"
[[jobs]]
route = "POST /models/{model}"
price = { of = "path:model", cases = { large = "$0.30", small = "$0.03" } }
[[jobs]]
route = "POST /tiered"
price = { of = "header:x-tier", cases = { gold = "$0.04" }, other = "$0.01" }
[job_pricing.1]`;

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => inDollars(config).replace("[job_pricing.1]", JOBS),
  }),
);

const JSON_BODY = { "content-type": "application/json" };
const ids = (job: number) => `/x402/jobs/1/${job}`;

/** Buys with the official client. @returns the status, and what the payee received */
async function buy(
  path: string,
  init: RequestInit,
): Promise<{ status: number; paid: bigint; answer: string }> {
  const network = `eip155:${parts.anvil.chainId}` as const;
  const pay = payingFetch({ account: accounts.payer, network, spendControls: false });
  const before = await parts.usdc.balanceOf(accounts.payTo.address);
  const response = await pay(`${gateway.jobgate.x402Url}${path}`, init);
  const answer = await response.text();
  return {
    status: response.status,
    paid: (await parts.usdc.balanceOf(accounts.payTo.address)) - before,
    answer,
  };
}

describe("The official client", () => {
  it.each<[string, string, RequestInit, bigint]>([
    ["size", ids(10), { method: "POST", body: "x".repeat(20_000) }, 22_000n],
    ["number in the body", ids(11), { method: "POST", headers: JSON_BODY, body: '{"n": 12.5}' }, 26_000n],
    [
      "characters",
      ids(12),
      { method: "POST", headers: JSON_BODY, body: '{"text":"eleven 🎈🎈🎈🎈"}' },
      50_000n,
    ],
    ["field of the query", "/weather/Oslo?units=kelvin", {}, 20_000n],
    ["parameter of the path", "/models/large", { method: "POST", body: "x" }, 300_000n],
    ["header", "/tiered", { method: "POST", headers: { "x-tier": "gold" }, body: "x" }, 40_000n],
  ])("Buys at a price by %s", async (_, path, init, units) => {
    const { status, paid, answer } = await buy(path, init);
    expect([status, answer]).toEqual([
      expect.toSatisfy((code: number) => code === 200 || code === 202),
      answer,
    ]);
    expect(paid).toBe(units);
  });

  it("Gets the header that the price depends on to the runner", async () => {
    const call = gateway.delivered.find(({ metadata }) => metadata["X-HTTP-X-TIER"] !== undefined);
    expect(call?.metadata["X-HTTP-X-TIER"]).toBe("gold");
  });
});

describe("A payment for one request", () => {
  const url = () => gateway.at("x402").urlOf(11);
  const small = '{"n":6}';

  it("Buys no other request, and its own one after a restart", async () => {
    const { v2 } = await requestOffer(url(), small, JSON_BODY);
    expect(v2.accepts[0]?.amount).toBe("12000");
    const payment = await signV2Payment({ offer: v2, account: accounts.payer });
    const send = (body: string) => gateway.send(payment, { job: 11, body, headers: JSON_BODY });
    for (const other of ['{"n":2500}', '{"n": 6}', '{"n":5}'])
      expect(await send(other)).toMatchObject({ status: 402, code: "payment_mismatch", charged: false });
    // It has nothing that the price reads.
    expect(await send("")).toMatchObject({ status: 422, code: "invalid_input", charged: false });
    await gateway.restart();
    expect(await send(small)).toMatchObject({ status: 202 });
  });

  it("Of the offer that a GET shows buys no request, not even one at its price", async () => {
    const shown = await fetch(url());
    expect(shown.status).toBe(402);
    const offer = decodePaymentRequiredHeader(shown.headers.get("payment-required") ?? "");
    expect(offer.accepts[0]?.amount).toBe("10000");
    const payment = await signV2Payment({ offer, account: accounts.payer });
    expect(await gateway.send(payment, { job: 11, body: '{"n":5}', headers: JSON_BODY })).toMatchObject({
      status: 402,
      code: "payment_mismatch",
      charged: false,
    });
  });

  it("Of v1 is matched by the price of its request", async () => {
    const { v1 } = await requestOffer(url(), small, JSON_BODY);
    const payment = await signV1Payment({ offer: v1, account: accounts.payer });
    const send = (body: string) => gateway.send(payment, { job: 11, body, headers: JSON_BODY });
    expect(await send('{"n":7}')).toMatchObject({ status: 402, code: "payment_mismatch", charged: false });
    expect(await send(small)).toMatchObject({ status: 202 });
  });
});

describe("A request that programs read in two ways", () => {
  it.each(["?units=kelvin#x", "#?units=kelvin", "?#units=kelvin", "?units=kelvin#"])(
    "Has no price, and buys nothing with a payment: %s",
    async (tail) => {
      const target = `/weather/Oslo${tail}`;
      const shown = await fetch(`${gateway.jobgate.x402Url}/weather/Oslo?units=celsius`);
      const offer = decodePaymentRequiredHeader(shown.headers.get("payment-required") ?? "");
      const { headers } = await signV2Payment({ offer, account: accounts.payer });
      for (const sent of [{}, headers]) {
        const { status, body } = await rawRequest(gateway.jobgate.x402Url, `GET ${target}`, { ...sent });
        expect([status, JSON.parse(body)]).toMatchObject([404, { code: "not_found", charged: false }]);
      }
    },
  );
});

describe("A price by the request, over another protocol", () => {
  const small = "x".repeat(20_000);
  const large = "x".repeat(30_000);

  it.each(["evm", "blueprintevm"] as const)("Is the price of the request: %s", async (protocol) => {
    const { sign, send } = gateway.at(protocol);
    const payment = await sign({ job: 10, body: small });
    expect(payment.signed.authorization.value).toBe("22000");
    expect(await send(payment, { job: 10, body: large })).toMatchObject({ status: 402, charged: false });
    expect(await send(payment, { job: 10, body: small })).toMatchObject({ status: 202 });
  });

  it("Is read from the arguments that the tool's schema requires: MCP", async () => {
    const url = `${gateway.jobgate.x402Url}/mcp`;
    const { result } = await sendRpc(url, "tools/list");
    const { tools } = result as { readonly tools: readonly { readonly name: string }[] };
    expect(tools.find(({ name }) => name === "job-1-11")).toMatchObject({
      inputSchema: {
        type: "object",
        properties: { n: { type: "number", minimum: 0 } },
        required: ["n"],
        additionalProperties: true,
      },
    });
    const args = { n: 12.5, unit: "pages" };
    const asked = await sendRpc(url, "tools/call", { name: "job-1-11", arguments: args });
    expect(asked.result?.structuredContent).toMatchObject({ accepts: [{ amount: "26000" }] });
  });

  it("Is the price of the tool call: MCP", async () => {
    const { sign, send } = gateway.at("mcp");
    const headers = { "content-type": "text/plain; charset=utf-8" };
    const payment = await sign({ job: 10, body: small, headers });
    expect(payment.signed.authorization.value).toBe("22000");
    expect(await send(payment, { job: 10, body: large })).toMatchObject({
      code: "payment_mismatch",
      charged: false,
    });
    expect(await send(payment, { job: 10, body: small })).toMatchObject({ call_id: expect.any(Number) });
  });
});
