import { expect, it } from "vitest";
import { soldByBoth } from "../helpers/protocol-tables.ts";
import { PERMIT2_USDC } from "../parts/permit2/payments.ts";
import { PUBLIC_URL, startAnotherGateway } from "../x402/gateway-harness.ts";
import { AMOUNT, USDC } from "../x402/payments.ts";

it("The catalogue names x402 once as a protocol of a job that is sold both ways", async () => {
  const job = { serviceId: 1n, mode: "public_paid" } as const;
  const shop = await startAnotherGateway({
    config: {
      acceptedTokens: [USDC, PERMIT2_USDC],
      jobs: [{ ...job, jobIndex: 1, charge: ["used", "before"] }],
    },
  });
  const { paths } = JSON.parse(await (await fetch(`${shop.url}/openapi.json`)).text());
  const { offers, protocols } = paths["/x402/jobs/1/1"].post["x-payment-info"];
  expect(offers.length).toBeGreaterThan(1);
  expect(protocols).toEqual([{ x402: { scheme: "exact" } }]);
});

it("The list of jobs and its texts name Permit2", async () => {
  const both = await startAnotherGateway({
    config: { acceptedTokens: [USDC, PERMIT2_USDC] },
  });
  const read = async (path: string) => (await fetch(`${both.url}${path}`)).text();
  const { jobs } = JSON.parse(await read("/x402/jobs")) as {
    jobs: { settlement_options: { transfer_method?: string }[] }[];
  };
  expect(jobs[0]?.settlement_options.map((option) => option.transfer_method)).toEqual([undefined, "permit2"]);
  for (const path of ["/llms.txt", "/openapi.json"])
    expect(await read(path)).toContain("3.264 USDC on eip155:84532 by Permit2");
});

it("The catalogue of a shop with MPP and MCP lists offers of evm for what it can pay, the route of blueprintevm, and the URL of the tools", async () => {
  const job = { serviceId: 1n, mode: "public_paid" } as const;
  const shop = await startAnotherGateway({
    config: {
      acceptedTokens: [USDC, PERMIT2_USDC],
      jobs: [
        { ...job, jobIndex: 0 },
        { ...job, jobIndex: 1, charge: ["used"] },
      ],
      parts: soldByBoth(),
    },
  });
  const read = async (path: string) => (await fetch(`${shop.url}${path}`)).text();
  const { paths, components } = JSON.parse(await read("/openapi.json"));
  const offersOf = (index: number) => paths[`/x402/jobs/1/${index}`].post["x-payment-info"].offers;
  const offer = { intent: "charge", amount: AMOUNT, currency: USDC.asset };
  expect(offersOf(0)).toMatchObject([
    { ...offer, method: "x402" },
    { ...offer, method: "evm" },
    { ...offer, method: "x402", description: expect.stringContaining("Permit2") },
  ]);
  expect(paths["/x402/jobs/1/0"].post["x-payment-info"].protocols).toEqual([
    { x402: { scheme: "exact" } },
    { mpp: { method: "evm", intent: "charge", currency: USDC.asset } },
  ]);
  // Nobody settles metered here.
  expect(offersOf(1)).toEqual([{ intent: "charge", method: "x402", scheme: "upto", amount: null }]);
  expect(paths["/x402/jobs/1/1"].post["x-payment-info"]).toMatchObject({
    protocols: [{ x402: { scheme: "upto" } }],
  });
  expect(components.responses.PaymentRequired.headers).toHaveProperty("WWW-Authenticate");
  const { jobs } = JSON.parse(await read("/x402/jobs"));
  expect(jobs[0].mpp_endpoint).toBe(`${PUBLIC_URL}/mpp/jobs/1/0`);
  expect(jobs[1]).not.toHaveProperty("mpp_endpoint");
  const text = await read("/llms.txt");
  expect(text).toContain("MPP clients");
  expect(text).toContain(`\`${PUBLIC_URL}/mcp\``);
});

it("A page may use the headers of what parts add, as long as a configuration adds it", async () => {
  const gateway = await startAnotherGateway();
  const headersFor = async () => {
    const { headers } = await fetch(gateway.jobUrl(), {
      method: "OPTIONS",
      headers: { origin: "https://shop.example" },
    });
    return {
      sent: listed(headers.get("access-control-allow-headers")),
      read: listed(headers.get("access-control-expose-headers")),
    };
  };
  await gateway.reload({ parts: soldByBoth() });
  expect(await headersFor()).toEqual({
    sent: expect.arrayContaining([
      ...["Accept-Payment", "Idempotency-Key", "SIGN-IN-WITH-X", "Mcp-Session-Id", "MCP-Protocol-Version"],
    ]),
    read: expect.arrayContaining(["Payment-Receipt", "Mcp-Session-Id"]),
  });
  await gateway.reload({});
  const { sent, read } = await headersFor();
  expect(sent).not.toContain("Accept-Payment");
  expect(read).not.toContain("Payment-Receipt");
});

function listed(header: string | null): string[] {
  return (header ?? "").split(", ");
}
