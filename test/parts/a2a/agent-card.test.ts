import { expect, it } from "vitest";
import { A2a } from "../../../src/parts/a2a/a2a.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { PUBLIC_URL, startAnotherGateway } from "../../x402/gateway-harness.ts";
import { JOB } from "../../x402/payments.ts";
import { startShop } from "./agent.ts";
import { soldByA2a } from "./tables.ts";

const PATH = "/.well-known/agent-card.json";
const parts = startBeforeAll(startPaidParts);

it("The agent card has a skill for each job, and clients of both versions find the server and the extension in it", async () => {
  const json = "application/json";
  const job = {
    ...JOB,
    ...{ name: "sum", title: "Sum up", description: "Adds numbers", tags: ["math"] },
    input: { contentType: json, schema: '{"type":"object"}', example: '{"n":[1]}' },
    output: { contentType: "text/plain" },
  };
  const shop = await startShop(parts, { jobs: [job] });
  const response = await fetch(`${shop.url}${PATH}`);
  const card = (await response.json()) as { readonly skills: object[] };
  expect([response.status, response.headers.get("cache-control")]).toEqual([200, "public, max-age=300"]);
  const url = `${PUBLIC_URL}/a2a`;
  expect(card).toMatchObject({
    name: expect.any(String),
    description: expect.stringContaining("metadata.skillId"),
    version: expect.any(String),
    supportedInterfaces: [
      { url, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
      { url, protocolBinding: "JSONRPC", protocolVersion: "0.3" },
    ],
    ...{ url, preferredTransport: "JSONRPC", protocolVersion: "0.3.0" },
    capabilities: {
      ...{ streaming: true, pushNotifications: false },
      extensions: [
        {
          uri: "https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2",
          required: true,
        },
        { uri: "https://github.com/google-a2a/a2a-x402/v0.1", required: false },
      ],
    },
    // The other job says nothing of its types.
    defaultInputModes: [json, "application/octet-stream"],
    defaultOutputModes: ["text/plain", "application/octet-stream"],
  });
  expect(card.skills).toMatchObject([
    {
      ...{ id: "sum", name: "Sum up", tags: ["math"], examples: ['{"n":[1]}'] },
      description: `Adds numbers. Costs 1000000000000000 wei (3.264 USDC on eip155:84532) a run. ${PUBLIC_URL}/openapi.json has the schema of its input.`,
      ...{ inputModes: [json], outputModes: ["text/plain"] },
    },
    { id: "job-1-1", name: "Job 1 of service 1", tags: ["x402"] },
  ]);
  const etag = response.headers.get("etag") ?? "";
  expect((await fetch(`${shop.url}${PATH}`, { headers: { "if-none-match": etag } })).status).toBe(304);
});

it("There is neither a card nor a server without the table, and no card while no job is for sale", async () => {
  const part = async (services: ConstructorParameters<typeof A2a>[0]) => [new A2a(services)];
  const without = await startAnotherGateway({ parts: part });
  for (const path of [PATH, "/a2a"])
    expect((await fetch(`${without.url}${path}`, { method: "POST" })).status).toBe(404);
  const jobPolicies = [0, 1, 2].map((jobIndex) => ({
    ...{ serviceId: 1n, jobIndex, invocationMode: "disabled" as const },
  }));
  const empty = await startAnotherGateway({ parts: part, config: { parts: soldByA2a(), jobPolicies } });
  expect((await fetch(`${empty.url}${PATH}`)).status).toBe(404);
});

it("Lists and the registration of ERC-8004 link to the card, as long as there is one", async () => {
  const read = async (url: string, path: string) =>
    (await (await fetch(`${url}${path}`)).json()) as { readonly links: object; readonly services: object[] };
  const [shop, without] = [
    await startAnotherGateway({ config: { parts: soldByA2a() } }),
    await startAnotherGateway(),
  ];
  const [links, others] = [(await read(shop.url, "/")).links, (await read(without.url, "/")).links];
  expect(links).toEqual({ ...others, a2a: `${PUBLIC_URL}/a2a`, agentCard: `${PUBLIC_URL}${PATH}` });
  const service = { name: "A2A", endpoint: `${PUBLIC_URL}${PATH}`, version: "1.0" };
  const registration = "/.well-known/agent-registration.json";
  expect((await read(shop.url, registration)).services).toContainEqual(service);
  expect((await read(without.url, registration)).services).not.toContainEqual(service);
});
