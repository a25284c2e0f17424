import { expect, test } from "vitest";
import { readNames } from "../../src/commands/names.ts";
import type { OperatorClient } from "../../src/commands/operator-client.ts";

const JOB = { serviceId: 1n, jobId: 0n };
const endpoints = [
  { ...JOB, origin: "x402", name: "render" },
  { ...JOB, origin: "webhook", name: "" },
  { ...JOB, origin: "webhook", jobId: 7n, name: "orders" },
];
const client = { listEndpoints: async () => ({ endpoints }) } as unknown as OperatorClient;

test("Jobs have the names of their configuration, and calls that were resent have the name of their job", async () => {
  const { job } = await readNames(client);
  expect(job({ ...JOB, origin: "x402" })).toBe("1/0 render");
  expect(job({ ...JOB, origin: "webhook" })).toBe("1/0");
  expect(job({ ...JOB, origin: "operator" })).toBe("1/0 render, resent");
  expect(job({ ...JOB, jobId: 7n, origin: "operator" })).toBe("1/7 orders, resent");
  expect(job({ ...JOB, jobId: 8n, origin: "operator" })).toBe("1/8");
});
