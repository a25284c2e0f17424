import { decodePaymentRequiredHeader } from "@x402/core/http";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { parseDollars, type UsdPrice } from "../../../src/core/amounts.ts";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import { bazaarExtension } from "../../../src/parts/catalogue/bazaar.ts";
import { CatalogueRoutes } from "../../../src/parts/catalogue/catalogue-routes.ts";
import { llmsText } from "../../../src/parts/catalogue/llms-text.ts";
import { openApi as openApiOf } from "../../../src/parts/catalogue/openapi.ts";
import { resourceItems } from "../../../src/parts/catalogue/well-known.ts";
import { sellerOf } from "../../../src/x402/jobs/seller.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import {
  PERMISSIONS,
  PUBLIC_URL,
  startAnotherGateway,
  startTestGateway,
} from "../../x402/gateway-harness.ts";
import { offersOf, PRICE_WEI, requestWith, USDC } from "../../x402/payments.ts";

const TEXT_SCHEMA = { type: "object", properties: { text: { $ref: "#/$defs/text" } }, required: ["text"] };
const SCHEMA = { ...TEXT_SCHEMA, $defs: { text: { type: "string" } } };

const gateway = startBeforeAll(() =>
  startTestGateway({
    chainRpcUrl: "http://127.0.0.1:9",
    config: {
      title: "Words",
      contact: "https://shop.example/help",
      logo: "https://pictures.example/logo.png",
      guidance: "Send one text.",
      acceptedTokens: [{ ...USDC, currency: "USD", markupBps: 0 }],
      jobs: [
        {
          serviceId: 2n ** 64n - 1n,
          jobIndex: 7,
          name: "summarise",
          title: "Summarise a text",
          description: "Returns a summary of the text in the body.",
          tags: ["text"],
          input: {
            contentType: "application/json",
            schema: JSON.stringify(SCHEMA),
            example: '{"text":"abc"}',
          },
          output: {
            contentType: "application/json",
            schema: JSON.stringify(SCHEMA),
            example: '{"text":"a"}',
          },
          maxRunSecs: 120,
          price: parseDollars("$0.01") as UsdPrice,
        },
      ],
    },
  }),
);

function get(path: string, headers: Readonly<Record<string, string>> = {}) {
  return fetch(`${gateway.url}${path}`, { headers });
}

const USD = { unit: "usd", amount: 10n ** 16n } as const;
/** A job as it is listed. */
const JOB = {
  serviceId: 1n,
  jobIndex: 0,
  mode: "public_paid",
  offers: [],
  schemes: ["exact"],
  requirements: [],
  url: PUBLIC_URL,
} as const;

describe("GET /x402/jobs", () => {
  it("Lists every job for sale with its description, schema and price", async () => {
    const response = await get("/x402/jobs");
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "application/json",
      "cache-control": "public, max-age=60",
    });
    const text = await response.text();
    expect(text).toContain('"service_id":18446744073709551615');
    const { jobs } = JSON.parse(text) as { jobs: Record<string, unknown>[] };
    const { service_id: _, ...described } = jobs[0] ?? {};
    const endpoint = `${PUBLIC_URL}/x402/jobs/18446744073709551615/7`;
    const option = {
      protocol: "x402",
      network: "eip155:84532",
      asset: USDC.asset,
      symbol: "USDC",
      amount: "10000",
      pay_to: USDC.payTo,
      scheme: "exact",
      x402_endpoint: endpoint,
    };
    expect(described).toEqual({
      job_index: 7,
      name: "summarise",
      title: "Summarise a text",
      description: "Returns a summary of the text in the body.",
      tags: ["text"],
      mode: "public_paid",
      input: { content_type: "application/json", schema: SCHEMA, example: { text: "abc" } },
      output: { content_type: "application/json", schema: SCHEMA, example: { text: "a" } },
      max_run_secs: 120,
      price: "$0.01",
      settlement_options: [{ ...option, decimals: 6 }],
      x402_endpoint: endpoint,
    });
    expect(jobs.slice(1)).toMatchObject([
      { service_id: 1, job_index: 0, mode: "public_paid", price_wei: String(PRICE_WEI) },
      { service_id: 1, job_index: 1, auth_mode: "delegated_caller_signature" },
    ]);
    expect(text).not.toContain(PERMISSIONS);
  });

  it("Shows the same prices as each job's price route", async () => {
    const { jobs } = (await (await get("/x402/jobs")).json()) as {
      jobs: { x402_endpoint: string; settlement_options: object[] }[];
    };
    for (const { x402_endpoint, settlement_options } of jobs) {
      const price = await get(`${new URL(x402_endpoint).pathname}/price`);
      const { settlement_options: options } = (await price.json()) as { settlement_options: object[] };
      expect(settlement_options).toEqual(options.map((option) => ({ ...option, decimals: 6 })));
    }
  });

  it("Answers 304 to clients that have the list, and HEAD without a body", async () => {
    const etag = (await get("/x402/jobs")).headers.get("etag") ?? "";
    expect((await get("/x402/jobs", { "if-none-match": etag })).status).toBe(304);
    expect((await get("/x402/jobs", { "if-none-match": '"other"' })).status).toBe(200);
    const head = await fetch(`${gateway.url}/x402/jobs`, { method: "HEAD" });
    expect([head.status, head.headers.get("etag"), await head.text()]).toEqual([200, etag, ""]);
  });
});

async function openApi() {
  return (await (await get("/openapi.json")).json()) as {
    paths: Record<string, { post: Record<string, unknown> }>;
    components: { schemas: Record<string, object> };
  };
}

describe("GET /openapi.json", () => {
  it("Has one operation for each job, with its price and the 402", async () => {
    const response = await get("/openapi.json");
    expect([response.status, response.headers.get("cache-control")]).toEqual([200, "public, max-age=300"]);
    const { paths, ...document } = await openApi();
    expect(document).toMatchObject({
      openapi: "3.1.0",
      info: {
        title: "Words",
        contact: { url: "https://shop.example/help" },
        "x-guidance": expect.stringMatching(/^Send one text\.\n\n1\. `POST`/),
      },
      servers: [{ url: PUBLIC_URL }],
      "x-service-info": { categories: ["text"], docs: { llms: `${PUBLIC_URL}/llms.txt` } },
    });
    expect(Object.keys(paths)).toEqual([
      "/x402/jobs/18446744073709551615/7",
      "/x402/jobs/1/0",
      "/x402/jobs/1/1",
      "/x402/calls/{call_id}",
      "/x402/calls/{call_id}/result",
      "/x402/calls/{call_id}/events",
      "/x402/calls",
    ]);
    expect(paths["/x402/jobs/18446744073709551615/7"]?.post).toMatchObject({
      operationId: "summarise",
      summary: "Summarise a text",
      description: "Returns a summary of the text in the body.",
      "x-payment-info": {
        price: { mode: "fixed", currency: "USD", amount: "0.01" },
        protocols: [{ x402: { scheme: "exact" } }],
        offers: [
          {
            intent: "charge",
            scheme: "exact",
            amount: "10000",
            currency: USDC.asset,
            description: "0.01 USDC on eip155:84532",
          },
        ],
      },
      requestBody: { content: { "application/json": { example: { text: "abc" } } } },
      responses: {
        200: {
          content: {
            "application/json": {
              schema: { $ref: "#/components/schemas/summarise_output" },
              example: { text: "a" },
            },
          },
        },
        402: expect.anything(),
      },
    });
    expect(paths["/x402/jobs/1/0"]?.post).toMatchObject({
      operationId: "job_1_0",
      summary: "Job 0 of service 1",
    });
  });

  it.each([
    [undefined, { type: "string", format: "binary" }],
    ["image/png", { type: "string", format: "binary" }],
    ["text/plain; charset=utf-8", { type: "string" }],
    ["application/json", {}],
    ["multipart/form-data", { type: "object", additionalProperties: true }],
  ])("Has a schema for bodies and results of %s", (contentType, schema) => {
    const media = contentType === undefined ? {} : { input: { contentType }, output: { contentType } };
    const job = { ...JOB, ...media };
    const document = [...openApiOf([job], sellerOf({ publicUrl: PUBLIC_URL }))].join("");
    const { post } = JSON.parse(document).paths["/x402/jobs/1/0"];
    const content = { [contentType ?? "*/*"]: { schema } };
    expect([post.requestBody.content, post.responses[200].content]).toEqual([content, content]);
  });

  it("Requires a header that the price cannot do without, and has the size of the largest body", () => {
    const range = (needsHeaders: boolean) => ({
      ...{ from: USD, upTo: USD, rule: "by the header x-tier", headers: ["x-tier"] },
      needsHeaders,
    });
    const required = [true, false].map((needsHeaders) => {
      const price = { priceWei: USD.amount, currency: "USD", range: range(needsHeaders) } as const;
      const jobs = [{ ...JOB, price, maxBodyBytes: 7 }];
      const document = [...openApiOf(jobs, sellerOf({ publicUrl: PUBLIC_URL }))].join("");
      const { post } = JSON.parse(document).paths["/x402/jobs/1/0"];
      expect(post["x-max-body-bytes"]).toBe(7);
      return post.parameters.find(({ name }: { name?: string }) => name === "x-tier").required;
    });
    expect(required).toEqual([true, false]);
  });

  it("Says what payments for a job must have", () => {
    const note = "Payments must have a payment identifier.";
    const jobs = [{ ...JOB, requirements: [{ name: "payment-identifier", note }] }];
    const document = [...openApiOf(jobs, sellerOf({ publicUrl: PUBLIC_URL }))].join("");
    expect(JSON.parse(document).paths["/x402/jobs/1/0"].post["x-conditions"]).toEqual([note]);
  });

  it("Names x402 once for a job with several schemes, by the scheme that most clients pay", () => {
    const schemesOf = (charge: readonly string[], schemes: readonly string[]) => {
      const jobs = [{ ...JOB, charge, schemes }];
      const document = [...openApiOf(jobs, sellerOf({ publicUrl: PUBLIC_URL }))].join("");
      return JSON.parse(document).paths["/x402/jobs/1/0"].post["x-payment-info"].protocols;
    };
    expect(schemesOf(["used", "after"], ["upto", "exact"])).toEqual([{ x402: { scheme: "exact" } }]);
    expect(schemesOf(["used"], ["upto"])).toEqual([{ x402: { scheme: "upto" } }]);
  });

  it("Has the result of a route by any status that says it", () => {
    const route = parseRoute("POST /notes") as Route;
    const jobs = [{ ...JOB, route, waitSecs: 60 }];
    const document = [...openApiOf(jobs, sellerOf({ publicUrl: PUBLIC_URL }))].join("");
    const { responses } = JSON.parse(document).paths["/notes"].post;
    expect(responses["2XX"]).toEqual({
      description: "The result",
      content: { "*/*": { schema: { type: "string", format: "binary" } } },
    });
    expect(responses["200"]).toEqual(responses["2XX"]);
  });

  it("Has the schemas of input and result, with its definitions beside it and references that hold there", async () => {
    const document = await openApi();
    const { schemas } = document.components;
    for (const name of ["summarise_input", "summarise_output"])
      expect([schemas[name], schemas[`${name}.text`]]).toEqual([
        { ...TEXT_SCHEMA, properties: { text: { $ref: `#/components/schemas/${name}.text` } } },
        { type: "string" },
      ]);
    const ajv = new Ajv2020({ strict: false });
    ajv.addSchema(document, "openapi");
    const validate = ajv.compile({ $ref: "openapi#/components/schemas/summarise_input" });
    expect([validate({ text: "abc" }), validate({ text: 1 }), validate({})]).toEqual([true, false, false]);
  });
});

it("OpenAPI says how the holder of an access token, and the payer, read a paid call", async () => {
  const { paths, components } = (await (await get("/openapi.json")).json()) as {
    paths: Record<string, { get: { security: object[] } }>;
    components: { securitySchemes: object };
  };
  expect(components.securitySchemes).toMatchObject({
    AccessToken: { type: "http", scheme: "bearer" },
    SignIn: { type: "apiKey", name: "SIGN-IN-WITH-X", "x-agentcash-auth-kind": "siwx" },
  });
  const either = [{ AccessToken: [] }, { SignIn: [] }];
  for (const tail of ["", "/result", "/events"])
    expect(paths[`/x402/calls/{call_id}${tail}`]?.get.security).toEqual(either);
  expect(paths["/x402/calls"]?.get.security).toEqual([{ SignIn: [] }]);
});

describe("GET /x402/jobs/{name}", () => {
  it("Finds a job by its name", async () => {
    const { jobs } = (await (await get("/x402/jobs")).json()) as { jobs: object[] };
    expect(await (await get("/x402/jobs/summarise")).json()).toEqual(jobs[0]);
    expect((await get("/x402/jobs/other")).status).toBe(404);
  });
});

it("The picture of the gateway is the seller's logo, or else jobgate's", async () => {
  const own = await fetch(`${gateway.url}/favicon.svg`, { redirect: "manual" });
  expect([own.status, own.headers.get("location")]).toEqual([302, "https://pictures.example/logo.png"]);
  const other = await startAnotherGateway();
  const picture = await fetch(`${other.url}/favicon.svg`);
  expect([picture.status, picture.headers.get("content-type")]).toEqual([200, "image/svg+xml"]);
});

it("Every list of a job has the URL, the price, the schemas and the description of its 402", async () => {
  // biome-ignore lint/suspicious/noExplicitAny: documents whose fields the test compares
  const json = async (path: string): Promise<any> => (await get(path)).json();
  const listed = await json("/x402/jobs");
  const items = await json("/.well-known/x402.json");
  const urls = await json("/.well-known/x402");
  const openapi = await openApi();
  const text = await (await get("/llms.txt")).text();
  expect(items).toMatchObject({ x402Version: 2, lastUpdated: expect.stringMatching(/^20.*Z$/) });
  expect(items.items).toHaveLength(listed.jobs.length);
  for (const [i, { resource, type, accepts, price, requires, input, output }] of items.items.entries()) {
    const path = resource.url.slice(PUBLIC_URL.length);
    const asked = await fetch(`${gateway.url}${path}`, { method: "POST" });
    const required = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
    const bazaar = required.extensions?.bazaar as { info: { input: object; output?: { example: unknown } } };
    const { headers = {}, ...sent } = input;
    expect([resource, { type, ...sent }]).toEqual([required.resource, bazaar.info.input]);
    expect(output.example).toEqual(bazaar.info.output?.example);
    expect(required.accepts).toMatchObject(accepts);
    const job = listed.jobs[i];
    expect([job.x402_endpoint, urls.resources[i]]).toEqual([resource.url, resource.url]);
    expect(job.settlement_options.map(({ amount }: { amount: string }) => amount)).toEqual(
      accepts.map(({ amount }: { amount: string }) => amount),
    );
    const operation = openapi.paths[path]?.post as {
      "x-payment-info": { offers: object[]; price?: object };
      "x-restricted"?: boolean;
      parameters: readonly { name: string; in: string; description: string }[];
      requestBody: { content: Record<string, { example?: unknown }> };
      responses: Record<string, { content: Record<string, { example?: unknown }> }>;
    };
    expect(operation["x-payment-info"].offers).toMatchObject(
      accepts.map(({ amount, network, scheme }: Record<string, string>) => ({ amount, network, scheme })),
    );
    expect(operation["x-payment-info"].price).toEqual(price);
    expect(requires).toEqual(operation["x-restricted"] ? [job.auth_mode] : []);
    const parameters = operation.parameters.filter((one) => one.in === "header");
    expect(headers).toEqual(job.headers ?? {});
    expect(Object.entries(headers)).toEqual(parameters.map(({ name, description }) => [name, description]));
    expect(Object.values(operation.requestBody.content)[0]?.example).toEqual(job.input?.example);
    expect(Object.values(operation.responses["200"]?.content ?? [])[0]?.example).toEqual(job.output?.example);
    expect(text).toContain(`](${resource.url})`);
  }
});

it("Registries of agents find who sells, and where", async () => {
  expect(await (await get("/.well-known/agent-registration.json")).json()).toMatchObject({
    type: "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
    name: "Words",
    description: "Send one text.",
    image: "https://pictures.example/logo.png",
    services: [{ name: "web", endpoint: `${PUBLIC_URL}/` }],
    x402Support: true,
  });
});

describe("GET /.well-known/x402 and /llms.txt", () => {
  it("Name every job's URL", async () => {
    const urls = ["18446744073709551615/7", "1/0", "1/1"].map((job) => `${PUBLIC_URL}/x402/jobs/${job}`);
    expect(await (await get("/.well-known/x402")).json()).toEqual({ version: 1, resources: urls });
    const response = await get("/llms.txt");
    expect(response.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
    const text = await response.text();
    expect(text).toMatch(/^# Words\n/);
    expect(text).toContain("Send one text.\n\n## How to buy");
    expect(text).toContain("[Contact](https://shop.example/help)");
    for (const url of urls) expect(text).toContain(`](${url})`);
    expect(text).toContain("Price: $0.01, 0.01 USDC on eip155:84532.");
  });

  it("A text for agents says of which job no answer is kept", () => {
    const jobs = [false as const, undefined].map((storeAnswers, jobIndex) => ({
      ...{
        serviceId: 1n,
        jobIndex,
        offers: [],
        schemes: ["exact"],
        requirements: [],
        url: `${PUBLIC_URL}/x402/jobs/1/${jobIndex}`,
      },
      mode: "public_paid" as const,
      ...(storeAnswers === false && { storeAnswers }),
    }));
    const text = [...llmsText(jobs, sellerOf({ publicUrl: PUBLIC_URL, serviceName: "Two" }))].join("");
    const lines = text.split("\n").filter((line) => line.includes("/x402/jobs/1/"));
    const told = lines.filter((line) => line.startsWith("- [")).map((line) => line.includes("keep it"));
    expect(told).toEqual([true, false]);
  });

  it("A text for agents says which job is charged once it has succeeded", () => {
    const price = { priceWei: USD.amount, currency: "USD" } as const;
    const jobs = ([["after"], ["before", "after"], ["used"]] as const).map((charge, jobIndex) => ({
      ...JOB,
      ...{ jobIndex, charge, price, url: `${PUBLIC_URL}/x402/jobs/1/${jobIndex}` },
    }));
    const [late, either, metered] = [...llmsText(jobs, sellerOf({ publicUrl: PUBLIC_URL }))]
      .join("")
      .split("\n")
      .filter((line) => line.includes("/x402/jobs/1/"));
    expect(late).toContain("It is charged once it has succeeded.");
    expect(either).not.toContain("charged");
    expect(late).toContain("Price: $0.01.");
    expect(metered).toContain("Price: up to $0.01.");
  });

  it("A text for agents stays under 200 lines, and escapes nothing into a new one", async () => {
    const jobs = Array.from({ length: 10_000 }, (_, jobIndex) => ({
      ...{
        serviceId: 1n,
        jobIndex,
        offers: [],
        schemes: ["exact"],
        requirements: [],
        url: `${PUBLIC_URL}/x402/jobs/1/${jobIndex}`,
      },
      mode: "public_paid" as const,
      title: "a](javascript:b) <i>title</i>\n# b",
      description: "line\n\n# line".repeat(100),
    }));
    const seller = sellerOf({ publicUrl: PUBLIC_URL, serviceName: "Many" });
    const lines = [...llmsText(jobs, seller)].join("").split("\n");
    expect(lines.length).toBeLessThan(200);
    expect(lines.filter((line) => line.startsWith("#"))).toEqual([
      "# Many",
      "## How to buy",
      "## Reference",
      "## Jobs",
    ]);
    expect(lines).toContainEqual(expect.stringContaining("- [a\\](javascript:b) \\<i>title\\</i> # b]("));
    expect(lines.at(-2)).toContain("9900 more jobs");
  });
});

it.each(["/", "/x402/jobs", "/openapi.json", "/.well-known/x402", "/llms.txt"])(
  "A page of another origin may ask before it reads %s",
  async (path) => {
    const answer = await fetch(`${gateway.url}${path}`, {
      method: "OPTIONS",
      headers: { origin: "https://shop.example", "access-control-request-method": "GET" },
    });
    expect([answer.status, await answer.text()]).toEqual([204, ""]);
    expect(answer.headers.get("access-control-allow-methods")).toContain("GET");
  },
);

it("x402.json says which offers are by Permit2, and what payments must have", () => {
  const [offer] = offersOf();
  if (offer === undefined) throw new Error("there is no offer");
  const listed = { ...offer, decimals: 6, method: "EIP-3009", isLowest: false };
  const permit2 = { ...listed, token: { ...offer.token, transferMethod: "permit2" } };
  const job = { ...JOB, offers: [listed, permit2], requirements: [{ name: "payment-identifier", note: "" }] };
  const describe = () => ({ resource: { url: PUBLIC_URL }, extensions: bazaarExtension(JOB, []) });
  const [item] = JSON.parse(
    [...resourceItems([job], describe, sellerOf({ publicUrl: PUBLIC_URL }))].join(""),
  ).items;
  expect(item.requires).toEqual(["payment-identifier"]);
  expect(item.accepts.map(({ extra }: { extra?: object }) => extra)).toEqual([
    undefined,
    { assetTransferMethod: "permit2" },
  ]);
});

it("A long document lets other work go on while it is rendered", async () => {
  const jobs = Array.from({ length: 1_000 }, (_, jobIndex) => ({
    ...{
      serviceId: 1n,
      jobIndex,
      offers: [],
      schemes: ["exact"],
      requirements: [],
      url: `${PUBLIC_URL}/x402/jobs/1/${jobIndex}`,
    },
    mode: "public_paid" as const,
  }));
  const seller = sellerOf({ publicUrl: PUBLIC_URL });
  const routes = new CatalogueRoutes({
    config: {},
    descriptions: { withOffers: () => ({ resource: { url: PUBLIC_URL }, extensions: {} }) },
    listing: { jobs: async () => jobs },
    seller,
    pages: undefined,
  });
  let turns = 0;
  const count = () => {
    turns += 1;
    turn = setImmediate(count);
  };
  let turn = setImmediate(count);
  onTestFinished(() => clearImmediate(turn));
  await new Map(routes.all).get("/openapi.json")?.GET?.(requestWith([]));
  expect(turns).toBeGreaterThan(10);
});

it("Names no protocol of a part that is not configured", async () => {
  for (const path of ["/openapi.json", "/x402/jobs", "/llms.txt"])
    expect(await (await get(path)).text()).not.toMatch(/mpp|mcp|"evm"/i);
});

describe("GET /", () => {
  it("Is the list of jobs, with links to all that can be read", async () => {
    const list = (await (await get("/")).json()) as { seller: object; links: Record<string, string> };
    expect(list.seller).toMatchObject({ title: "Words", contact: "https://shop.example/help" });
    expect(Object.keys(list.links)).toEqual(expect.arrayContaining(["jobs", "openapi", "llms", "calls"]));
    for (const link of Object.values(list.links)) {
      const { status } = await get(link.slice(PUBLIC_URL.length));
      // The list of calls asks its reader to sign in.
      expect([link, status]).toEqual([link, link.endsWith("/calls") ? 402 : 200]);
    }
    expect(await (await get("/", { accept: "*/*" })).text()).toBe(await (await get("/x402/jobs")).text());
  });
});

describe("GET on a job", () => {
  it("Answers crawlers with the 402 of a request without a payment", async () => {
    const posted = await fetch(gateway.jobUrl(), { method: "POST" });
    const response = await fetch(gateway.jobUrl());
    expect([response.status, response.headers.get("cache-control")]).toEqual([402, "no-store"]);
    expect(response.headers.get("payment-required")).toBe(posted.headers.get("payment-required"));
    expect((await fetch(gateway.jobUrl(), { method: "HEAD" })).status).toBe(405);
    const v2 = decodePaymentRequiredHeader(posted.headers.get("payment-required") ?? "");
    expect(v2.extensions).toMatchObject({ bazaar: { info: { input: { method: "POST" } } } });
  });

  it("Never takes a payment, and refuses what POST refuses", async () => {
    const { headers } = await gateway.sign();
    const paid = await fetch(gateway.jobUrl(), { headers });
    expect([paid.status, paid.headers.get("allow"), await paid.json()]).toEqual([
      405,
      "POST",
      expect.objectContaining({ code: "method_not_allowed", charged: false, retryable: false }),
    ]);
    for (const [path, status, code] of [
      [gateway.jobUrl(9), 404, "job_not_found"],
      [gateway.jobUrl(2), 403, "x402_disabled"],
      [`${gateway.jobUrl()}?a=1`, 400, "query_not_allowed"],
    ] as const) {
      const response = await fetch(path);
      expect([response.status, await response.json()]).toMatchObject([status, { code, charged: false }]);
    }
  });
});
