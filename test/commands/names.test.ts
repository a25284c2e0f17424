import { expect, test } from "vitest";
import { findJob, readNames } from "../../src/commands/names.ts";
import type { OperatorClient } from "../../src/commands/operator-client.ts";

const JOB = { serviceId: 1n, jobId: 0n };
const endpoints = [
  { ...JOB, origin: "x402", name: "render", path: "http://127.0.0.1:8402/x402/jobs/1/0" },
  { ...JOB, origin: "webhook", name: "", path: "/hooks/a" },
  { ...JOB, origin: "webhook", jobId: 7n, name: "orders", path: "/hooks/orders" },
  { ...JOB, origin: "x402", jobId: 2383336116n, name: "POST /words", path: "http://127.0.0.1:8402/words" },
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

test("A job at a route without a name is shown and found by the route alone", async () => {
  const words = { ...JOB, jobId: 2383336116n };
  const { job } = await readNames(client);
  expect(job({ ...words, origin: "x402" })).toBe("POST /words");
  expect(job({ ...words, origin: "operator" })).toBe("POST /words, resent");
  expect(await findJob(client, { name: "POST /words" })).toEqual(words);
});

test("A job is found by its name or the path of its webhooks, and a name that no job or several have is refused", async () => {
  const unnamed = {
    ...JOB,
    jobId: 4n,
    origin: "x402",
    name: "",
    path: "http://127.0.0.1:8402/x402/jobs/1/4",
  };
  const twice = [...endpoints, unnamed, { ...JOB, origin: "x402", serviceId: 2n, name: "orders", path: "" }];
  const shop = { listEndpoints: async () => ({ endpoints: twice }) } as unknown as OperatorClient;
  expect(await findJob(shop, { name: "render" })).toEqual(JOB);
  expect(await findJob(shop, { jobId: 3n })).toEqual({ jobId: 3n });
  expect(await findJob(shop, undefined)).toBeUndefined();
  expect(await findJob(shop, { name: "/hooks/orders" })).toEqual({ ...JOB, jobId: 7n });
  await expect(findJob(shop, { name: "nobody" })).rejects.toThrow(
    'no job is named "nobody". The jobs are: render, /hooks/a, orders, POST /words, 1/4.',
  );
  await expect(findJob(shop, { name: "orders" })).rejects.toThrow("names several jobs, 1/7 and 2/0");
});
