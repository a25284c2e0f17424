import { expect, it } from "vitest";
import { channelClient } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    jobs: `[[jobs]]
job_index = 7
route = "GET /weather/{city}"
mode = "public_paid"
price = "$0.003"
answer = "result"
[[jobs]]
job_index = 8
route = "POST|PUT /reports"
mode = "public_paid"
price = "$0.001"
`,
    handle: () => ({ body: Buffer.from("sunny") }),
  }),
);

it("One channel buys jobs at routes and at their ids, each for its price, and is paid back the rest", async () => {
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
  const url = `${shop.jobgate.x402Url}/weather/Paris`;
  const settlements = shop.facilitator.counts.settle;
  for (const city of ["Paris", "Rome"]) {
    const answer = await fetch(`${shop.jobgate.x402Url}/weather/${city}?units=metric`);
    expect([answer.status, await answer.text()]).toEqual([200, "sunny"]);
  }
  expect(await shop.buy(fetch, "one", KEPT)).toMatchObject({ status: 202 });
  expect(
    shop.facilitator.calls.slice(settlements).map(({ paymentPayload }) => paymentPayload?.payload.type),
  ).not.toContain("voucher");
  // Ten prices of the first job were deposited.
  await expect
    .poll(() => scheme.refund(url), { timeout: 10_000 })
    .toMatchObject({
      success: true,
      amount: String(10n * 3n * PRICE - 7n * PRICE),
    });
});

it("A channel is paid back at a route that is not bought by GET, and GET buys nothing there", async () => {
  const url = `${shop.jobgate.x402Url}/reports`;
  const headers: string[] = [];
  let sends = true;
  const observed: typeof globalThis.fetch = async (target, init) => {
    const request = new Request(target, init);
    const header = request.headers.get("payment-signature");
    if (header !== null) headers.push(header);
    if (header !== null && !sends) throw new Error("not sent");
    return globalThis.fetch(request);
  };
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer, fetch: observed });
  expect((await fetch(url, { method: "POST", body: "one" })).status).toBe(202);
  sends = false;
  await expect(fetch(url, { method: "POST", body: "two" })).rejects.toThrow("not sent");
  const ran = shop.runner.calls.length;

  const unpaid = await globalThis.fetch(url);
  expect([unpaid.status, unpaid.headers.get("payment-required")]).toEqual([402, expect.any(String)]);
  // One payment has bought the job by POST, and one has bought nothing.
  for (const header of headers) {
    const paid = await globalThis.fetch(url, { headers: { "payment-signature": header } });
    const refusal = await paid.json();
    expect([paid.status, paid.headers.get("allow"), refusal]).toEqual([
      ...[405, "POST, PUT"],
      expect.objectContaining({ charged: false }),
    ]);
  }
  expect(shop.runner.calls).toHaveLength(ran);

  const other = await globalThis.fetch(url, { method: "DELETE" });
  expect([other.status, other.headers.get("allow")]).toEqual([405, "GET, HEAD, POST, PUT"]);
  const preflight = await globalThis.fetch(url, { method: "OPTIONS" });
  expect(preflight.headers.get("access-control-allow-methods")).toBe("GET, HEAD, POST, PUT");

  const statuses: number[] = [];
  const byHead: typeof globalThis.fetch = async (target, init) => {
    const request = new Request(target, init);
    const asks = request.headers.has("payment-signature");
    const answer = await globalThis.fetch(asks ? new Request(request, { method: "HEAD" }) : request);
    statuses.push(answer.status);
    return answer;
  };
  await expect(scheme.refund(url, { fetch: byHead })).rejects.toThrow();
  expect(statuses).toEqual([402, 405]);
  expect(await scheme.refund(url)).toMatchObject({ success: true, amount: String(9n * PRICE) });
  const document = await globalThis.fetch(`${shop.jobgate.x402Url}/openapi.json`);
  const { paths } = (await document.json()) as { readonly paths: Record<string, object> };
  expect(Object.keys(paths["/reports"] ?? {})).toEqual(["post", "put"]);
});
