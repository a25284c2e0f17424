import { execFile, spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import type { Job } from "../../src/config/config.ts";
import { parseDollars, type UsdPrice } from "../../src/core/amounts.ts";
import { parseRoute, type Route } from "../../src/core/route.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { soldByMpp } from "../helpers/protocol-tables.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { startAnotherGateway } from "../x402/gateway-harness.ts";
import { PRICE_WEI, USDC } from "../x402/payments.ts";

// Installed apart, by `npm ci --prefix test/interop/discovery`.
const VALIDATORS = fileURLToPath(new URL("discovery/", import.meta.url));

/** Prints what each validator has against an OpenAPI document. */
const SCRIPT = `
import { dereference, validate as parse } from "@readme/openapi-parser";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { Validator } from "@seriousme/openapi-schema-validator";
import { validate as discovery } from "mppx/discovery";
import { text } from "node:stream/consumers";
const document = await text(process.stdin);
const [schema, parser] = [await new Validator().validate(JSON.parse(document)), await parse(JSON.parse(document))];
await dereference(JSON.parse(document));
const linted = await lintFromString({ source: document, config: await createConfig({ extends: ["recommended"] }) });
const redocly = linted.map(({ ruleId, message, location: [{ pointer }] }) => ({ ruleId, message, pointer }));
const found = { schema: schema.errors ?? [], parser: parser.errors ?? [], mppx: discovery(JSON.parse(document)), redocly };
console.log(JSON.stringify({ ...found, valid: schema.valid && parser.valid }));
`;

/** Prints what the library of x402scan has against a server, without the notes of severity "info". */
const CRAWL = `
import * as discovery from "@agentcash/discovery";
const { origin, urls } = JSON.parse(process.argv[1]);
const openApi = (await discovery.getOpenAPI(origin)).unwrapOr(null);
const found = await discovery.discoverOriginSchema({ target: origin });
const endpoints = await Promise.all(urls.map(async (url) => {
  const { advisories = [] } = await discovery.checkEndpointSchema({ url, probe: true });
  return { url, methods: advisories.map(({ method }) => method), warnings: advisories.flatMap(discovery.getWarningsForL3) };
}));
const warnings = [
  ...discovery.getWarningsForOpenAPI(openApi),
  ...discovery.getWarningsForL2(discovery.checkL2ForOpenAPI(openApi)),
  ...discovery.getWarningsForL4(discovery.checkL4ForOpenAPI(openApi)),
  ...(await discovery.getWarningsForFavicon(origin)).unwrapOr([{ code: "favicon" }]),
];
const told = (list) => list.map(({ code, severity, path }) => [severity, code, path].join(" "));
console.log(JSON.stringify({
  ...found,
  warnings: told(warnings),
  endpoints: endpoints.map(({ warnings, ...one }) => ({ ...one, warnings: told(warnings) })),
}));
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

interface Problem {
  readonly ruleId: string;
  readonly pointer: string;
}

function problemsOf(document: string): { readonly redocly: readonly Problem[] } {
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
  const { redocly, ...found } = problemsOf(document);
  expect(found).toEqual({ schema: [], parser: [], mppx: [], valid: true });
  // The seller gives no license; its URL here is an example; and Redocly takes no schema that is a boolean.
  const isOfSeller = ({ ruleId, pointer }: Problem) =>
    ["info-license", "no-server-example.com"].includes(ruleId) ||
    /^#\/components\/schemas\/(tree|job_1_11)/.test(pointer);
  expect(redocly.filter((problem) => !isOfSeller(problem))).toEqual([]);
  const broken = document
    .replaceAll('"402":', '"418":')
    .replaceAll("#/components/schemas/tree", "#/components/nowhere");
  expect(() => problemsOf(broken)).toThrow(/nowhere/);
  expect(problemsOf(document.replaceAll('"402":', '"418":'))).toMatchObject({
    mppx: expect.arrayContaining([expect.objectContaining({ message: expect.stringContaining("402") })]),
  });
});

/** Crawls a server with the library of x402scan, which must find each URL and have no warning. @returns what it found */
async function expectNothingFound(
  origin: string,
  paths: readonly string[],
  warnings: readonly string[] = [],
): Promise<{ guidance: string }> {
  const urls = paths.map((path) => origin + path);
  const crawl = ["--input-type=module", "--eval", CRAWL, JSON.stringify({ origin, urls })];
  const { stdout } = await promisify(execFile)("node", crawl, { cwd: VALIDATORS });
  const { endpoints, ...found } = JSON.parse(stdout);
  expect(found).toMatchObject({ found: true, guidanceAvailable: true, warnings });
  expect(endpoints).toEqual(urls.map((url) => ({ url, methods: expect.anything(), warnings: [] })));
  return found;
}

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
});

it("The library of x402scan has nothing against a server, with and without schemas", async () => {
  const text = { contentType: "text/plain", example: "abc" };
  const forecast = { type: "object", properties: { celsius: { type: "number" } }, required: ["celsius"] };
  const output = withSchema(forecast, { celsius: 20 });
  const input = withSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"] });
  const route = (text: string) => ({ route: parseRoute(text) as Route });
  const query = {
    properties: { days: { type: "integer" } },
    required: ["days"],
    additionalProperties: false,
  };
  const gateway = await startAnotherGateway({
    config: {
      acceptedTokens: [{ ...USDC, currency: "USD" }],
      contact: "ada@shop.example",
      guidance: "Ask for one city at a time.",
      jobs: [
        job(10, { name: "plain" }),
        job(11, { name: "texts", input: text, output: text }),
        job(12, { name: "weather", input, output }),
        job(13, { ...route("GET /weather/{city}"), parameters: query, output }),
        job(14, { ...route("GET /news") }),
        job(15, { ...route("GET|POST /notes"), input }),
      ],
      jobPricing: new Map(),
    },
  });
  const urls = [
    "/x402/jobs/1/10",
    "/x402/jobs/1/11",
    "/x402/jobs/1/12",
    "/weather/Ulm?days=1",
    "/news",
    "/notes",
  ];
  const { guidance } = await expectNothingFound(gateway.url, urls);
  expect(guidance).toContain("Ask for one city at a time.");
});

it("The library of x402scan has nothing against a server whose jobs are paid on Solana", async () => {
  const folder = await testFolder();
  const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  await writeFile(join(folder, "city.json"), JSON.stringify(schema));
  const shop = await startSolanaShop(await startSolanaParts(), {
    start: startJobgate,
    more: `
[[apis]]
name = "weather"
url = "http://127.0.0.1:9"
[[jobs]]
job_index = 2
mode = "public_paid"
price = "$0.01"
input = { content_type = "application/json", schema = "${join(folder, "city.json")}" }
output = { content_type = "text/plain" }
[[jobs]]
job_index = 3
route = "GET /weather/{city}"
api = "weather"
charge = "before"
mode = "public_paid"
price = "$0.01"
`,
  });
  await expectNothingFound(
    shop.jobgate.x402Url,
    ["/x402/jobs/1/0", "/x402/jobs/1/2", "/weather/Ulm"],
    [
      // This seller gives none.
      "info OPENAPI_CONTACT_MISSING info.contact",
    ],
  );
});
