import { expect, it } from "vitest";
import type { JobBody } from "../../../src/config/config.ts";
import { BodySchema } from "../../../src/core/body-schema.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { eventually } from "../../helpers/eventually.ts";
import { sendRpc } from "../../helpers/mcp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne } from "../../store/store-fixtures.ts";
import { startAnotherGateway, type TestGateway } from "../../x402/gateway-harness.ts";
import { JOB } from "../../x402/payments.ts";
import { soldByMcp } from "./tables.ts";

const SCHEMA = JSON.stringify({
  type: "object",
  $defs: { sum: { type: "integer" } },
  properties: { sum: { $ref: "#/$defs/sum" } },
  required: ["sum"],
});

const parts = startBeforeAll(startPaidParts);
const startShop = (output: JobBody) =>
  startAnotherGateway({
    config: { facilitatorUrl: parts.facilitator.url, parts: soldByMcp(), jobs: [{ ...JOB, output }] },
  });

const schemaOf = async ({ url }: TestGateway) => {
  const { tools } = (await sendRpc(`${url}/mcp`, "tools/list")).result as {
    tools?: { outputSchema?: object }[];
  };
  return tools?.[0]?.outputSchema;
};

async function resultOf(shop: TestGateway, body: string, contentType = "application/json") {
  const { payload } = await shop.sign();
  const params = { name: "job-1-0", arguments: { body: "work" }, _meta: { "x402/payment": payload } };
  const paid = sendRpc(`${shop.url}/mcp`, "tools/call", params);
  await eventually(async () =>
    shop.store.ack(await claimOne(shop.store), { body: Buffer.from(body), contentType }),
  );
  return (await paid).result;
}

it("A tool has the schema of its job's results, and each answer of the tool matches it", async () => {
  const shop = await startShop({ contentType: "application/json", schema: SCHEMA });
  const schema = await BodySchema.compile(JSON.stringify(await schemaOf(shop)));
  const problems = (structured: unknown) => schema.check(Buffer.from(JSON.stringify(structured)));
  const described = await resultOf(shop, '{"sum":3}');
  expect(described?.structuredContent).toEqual({ sum: 3 });
  const inContent = [
    await resultOf(shop, '{"sum":"three"}'),
    await resultOf(shop, "[3]"),
    await resultOf(shop, "no JSON"),
    await resultOf(shop, "three", "text/plain"),
    await resultOf(shop, JSON.stringify({ sum: "x".repeat(1_048_576) })),
  ];
  for (const result of inContent) {
    expect(result).toMatchObject({ content: [{}], structuredContent: { status: "in_content" } });
    expect(problems(result?.structuredContent)).toEqual([]);
  }
  expect(problems(described?.structuredContent)).toEqual([]);
  expect(problems({ status: "running", task_id: "1.x" })).toEqual([]);
  expect(problems({ sum: "three" })).not.toEqual([]);
});

it.each([
  ["a text", { contentType: "text/plain" }],
  ["JSON of any form", { contentType: "application/json" }],
  ["an array", { contentType: "application/json", schema: '{"type":"array"}' }],
])("A tool whose job gives %s has no schema of its results", async (_, output) => {
  const shop = await startShop(output);
  expect(await schemaOf(shop)).toBeUndefined();
  expect(await resultOf(shop, "[3]")).not.toHaveProperty("structuredContent");
});
