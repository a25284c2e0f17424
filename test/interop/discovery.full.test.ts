import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import type { Job } from "../../src/config/config.ts";
import { parseDollars, type UsdPrice } from "../../src/core/amounts.ts";
import { soldByMpp } from "../helpers/door-tables.ts";
import { startAnotherGateway } from "../x402/gateway-harness.ts";
import { PRICE_WEI, USDC } from "../x402/payments.ts";

// Installed apart, by `npm ci --prefix test/interop/discovery`.
const VALIDATORS = fileURLToPath(new URL("discovery/", import.meta.url));

/** Prints what each validator has against an OpenAPI document. */
const SCRIPT = `
import { dereference, validate as parse } from "@readme/openapi-parser";
import { Validator } from "@seriousme/openapi-schema-validator";
import { validate as discovery } from "mppx/discovery";
import { text } from "node:stream/consumers";
const document = await text(process.stdin);
const [schema, parser] = [await new Validator().validate(JSON.parse(document)), await parse(JSON.parse(document))];
await dereference(JSON.parse(document));
const found = { schema: schema.errors ?? [], parser: parser.errors ?? [], mppx: discovery(JSON.parse(document)) };
console.log(JSON.stringify({ ...found, valid: schema.valid && parser.valid }));
`;

const TREE = {
  $id: "https://example.com/tree.json",
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    value: { $ref: "#/$defs/value" },
    children: { type: "array", items: { $ref: "https://example.com/tree.json" } },
    pair: { prefixItems: [{ $ref: "#/$defs/value" }, true] },
  },
  patternProperties: { "^x-": { $ref: "tree.json#/$defs/value" } },
  dependentSchemas: { value: { required: ["children"] } },
  $defs: { value: { enum: [1, "a", null] } },
};

const price = parseDollars("$0.01") as UsdPrice;
const job = (jobIndex: number, more: Partial<Job>): Job => ({ serviceId: 1n, jobIndex, price, ...more });
const withSchema = (schema: unknown, example?: unknown) => ({
  contentType: "application/json",
  schema: JSON.stringify(schema),
  ...(example !== undefined && { example: JSON.stringify(example) }),
});

function problemsOf(document: string): unknown {
  const { status, stdout, stderr } = spawnSync("node", ["--input-type=module", "--eval", SCRIPT], {
    cwd: VALIDATORS,
    input: document,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

it("Validators of OpenAPI 3.1 and of paid discovery accept openapi.json", async () => {
  const gateway = await startAnotherGateway({
    config: {
      publicUrl: "https://operator.example.com/shop",
      acceptedTokens: [{ ...USDC, currency: "USD" }],
      parts: soldByMpp(),
      jobs: [
        job(10, {
          name: "tree",
          tags: ["a", "b"],
          maxRunSecs: 5,
          input: withSchema(TREE, { value: 1, children: [] }),
        }),
        job(11, { title: "Anything", description: "Two\nlines", input: withSchema(true) }),
        job(12, { input: { contentType: "text/plain; charset=utf-8", example: "abc" } }),
        job(13, { input: { contentType: "image/png" }, output: { contentType: "image/png" } }),
        job(14, { price: "engine" }),
      ],
      jobPricing: new Map(Array.from({ length: 200 }, (_, index) => [`2/${index}`, PRICE_WEI])),
    },
  });
  const document = await (await fetch(`${gateway.url}/openapi.json`)).text();
  expect(problemsOf(document)).toEqual({ schema: [], parser: [], mppx: [], valid: true });
  const broken = document
    .replaceAll('"402":', '"403":')
    .replaceAll("#/components/schemas/tree", "#/components/nowhere");
  expect(() => problemsOf(broken)).toThrow(/nowhere/);
  expect(problemsOf(document.replaceAll('"402":', '"403":'))).toMatchObject({
    mppx: expect.arrayContaining([expect.objectContaining({ message: expect.stringContaining("402") })]),
  });
}, 60_000);

it("The validator of MPP has no warning about a server and what it sells", async () => {
  const text = { contentType: "text/plain", example: "abc" };
  const gateway = await startAnotherGateway({
    config: {
      acceptedTokens: [{ ...USDC, currency: "USD" }],
      parts: soldByMpp({ realm: "127.0.0.1" }),
      jobs: [job(10, { input: text, output: text }), job(11, {})],
    },
  });
  const { stdout } = await promisify(execFile)(
    `${VALIDATORS}node_modules/.bin/mppx`,
    ["validate", gateway.url],
    { env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0" } },
  );
  expect(stdout).toMatch(/^Summary: [1-9][0-9]* passed, [0-9]+ skipped$/m);
}, 60_000);
