import { expect, test } from "vitest";
import { knownServices } from "../../../src/parts/pricing-engine/part.ts";
import { loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";
import { startTestGateway } from "../../x402/gateway-harness.ts";

test("The operator's own service, services with a job for sale and services with a price are known; disabled services are not", async () => {
  const policy = (serviceId: number, mode: string) =>
    `[[x402.job_policies]]\nservice_id = ${serviceId}\njob_index = 0\ninvocation_mode = "${mode}"\n`;
  const loaded = await loadFiles(
    `service_id = 5\n${X402}${TOKEN}${policy(6, "public_paid")}${policy(7, "disabled")}` +
      `[job_pricing.18446744073709551615]\n0 = "1000000000000000"\n1 = "1000000000000000"\n`,
  );
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  expect(knownServices(loaded.config)).toEqual(new Set([5n, 6n, 2n ** 64n - 1n]));
});

test("Without x402 only the operator's own service is known", () => {
  expect(knownServices({ serviceId: 3n })).toEqual(new Set([3n]));
});

test("A page may name a quote even without a pricing engine", async () => {
  const gateway = await startTestGateway();
  const { headers } = await fetch(gateway.jobUrl(), {
    method: "OPTIONS",
    headers: { origin: "https://shop.example", "access-control-request-method": "POST" },
  });
  expect(headers.get("access-control-allow-headers")?.split(", ")).toContain("X-X402-QUOTE-DIGEST");
});
