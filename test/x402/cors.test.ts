import { expect, test } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startTestGateway } from "./gateway-harness.ts";

const SHOP = "https://shop.example";
const gateway = startBeforeAll(startTestGateway);

test.each([
  ["/x402/jobs/1/0", "GET"],
  ["/x402/jobs/1/0", "POST"],
  ["/x402/jobs/1/0/price", "GET"],
  ["/x402/calls/1", "GET"],
  ["/x402/calls/1/result", "GET"],
  ["/x402/calls/1/events", "GET"],
  ["/x402/stats", "GET"],
  ["/x402/health", "GET"],
])("A page may ask before it calls %s with %s", async (path, method) => {
  const answer = await fetch(`${gateway.url}${path}`, {
    method: "OPTIONS",
    headers: { origin: SHOP, "access-control-request-method": method },
  });
  expect([answer.status, await answer.text()]).toEqual([204, ""]);
  const headers = Object.fromEntries(answer.headers);
  expect(headers["access-control-allow-origin"]).toBe("*");
  expect(headers).not.toHaveProperty("access-control-allow-credentials");
  expect(listed(headers["access-control-allow-methods"])).toContain(method);
  expect(listed(headers["access-control-allow-headers"])).toEqual(
    expect.arrayContaining([
      ...["Content-Type", "Authorization", "PAYMENT-SIGNATURE", "Prefer"],
      "Access-Control-Expose-Headers",
    ]),
  );
});

test("A page may read the payment headers of every answer", async () => {
  const paid = await gateway.post({}, { job: 0 });
  expect(paid.status).toBe(402);
  for (const { headers } of [paid, await fetch(`${gateway.url}/x402/calls/1`), await fetch(gateway.url)]) {
    expect(headers.get("access-control-allow-origin")).toBe("*");
    expect(listed(headers.get("access-control-expose-headers"))).toEqual(
      expect.arrayContaining([
        ...["PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "WWW-Authenticate"],
        ...["Location", "Retry-After", "Preference-Applied", "X-Request-Id"],
        ...["X-CALL-ID", "X-RECEIPT", "X-ACCESS-TOKEN"],
      ]),
    );
  }
});

test("A reload changes which pages may call, and which headers of jobs they may send", async () => {
  await gateway.reload({
    corsOrigins: ["https://other.example"],
    forwardHeaders: ["x-request-id"],
    jobs: [{ serviceId: 1n, jobIndex: 0, forwardHeaders: ["x-trace"] }],
  });
  const preflight = await fetch(gateway.jobUrl(), { method: "OPTIONS", headers: { origin: SHOP } });
  expect(listed(preflight.headers.get("access-control-allow-headers"))).toEqual(
    expect.arrayContaining(["x-request-id", "x-trace", "PAYMENT-SIGNATURE"]),
  );
  const { headers } = await fetch(gateway.jobUrl(), { method: "POST", headers: { origin: SHOP } });
  expect([headers.get("access-control-allow-origin"), headers.get("vary")]).toEqual([null, "Origin"]);
});

function listed(header: string | null | undefined): string[] {
  return (header ?? "").split(", ");
}
