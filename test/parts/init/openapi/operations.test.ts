import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readDescription } from "../../../../src/parts/init/described.ts";
import { describedApi } from "../../../../src/parts/init/openapi/operations.ts";
import { listenHttp } from "../../../helpers/http-listener.ts";

type Operation = Record<string, unknown>;

/** Reads a description with these paths. */
const read = (paths: Record<string, unknown>, more: Operation = {}) =>
  describedApi({ content: { openapi: "3.0.3", info: { title: "Things" }, paths, ...more } });

/** Reads a description of one operation. @returns its route */
async function readOne(operation: Operation, more: Operation = {}, at = "GET /things/{id}") {
  const [method = "", path = ""] = at.toLowerCase().split(" ");
  const { routes, leftOut } = await read({ [path]: { [method]: operation } }, more);
  expect(leftOut).toEqual([]);
  const [route] = routes;
  if (route === undefined) throw new Error("no operation was read");
  return route;
}

/** Reads a description of the one query field `q` of an operation. @returns its schema */
async function readField(parameter: Operation, more: Operation = {}): Promise<unknown> {
  const parameters = [{ name: "q", in: "query", ...parameter }];
  return (await readOne({ parameters }, more)).details.query?.properties.q;
}

/** Reads a description of a request's JSON body. @returns its schema */
async function readBody(schema: unknown, more: Operation = {}): Promise<unknown> {
  const requestBody = { required: true, content: { "application/json": { schema } } };
  const { details } = await readOne({ requestBody }, more, "POST /things");
  return details.input?.schema === undefined ? undefined : JSON.parse(details.input.schema);
}

test("Reads names, titles, descriptions, tags and the type of the answer", async () => {
  const operation = {
    operationId: "getThing",
    summary: " A thing\nof yours ",
    description: "Returns it.\n\nWith a **mark**.\u0007",
    tags: ["things"],
    responses: { 404: {}, 200: { content: { "application/json": {} } } },
  };
  expect(await readOne(operation)).toEqual({
    route: "GET /things/{id}",
    details: {
      name: "get-thing",
      title: "A thing of yours",
      description: "Returns it.\n\nWith a **mark**.",
      tags: ["things"],
      outputType: "application/json",
    },
  });
});

test("Leaves out texts that the configuration would read from a variable or a file", async () => {
  const operation = {
    summary: "env:HOME",
    description: "file:/etc/passwd",
    tags: ["file:/etc/passwd", "fine"],
  };
  expect((await readOne(operation)).details).toEqual({ name: "get-things-id", tags: ["fine"] });
});

test("Names each operation once, after its route where it has no name", async () => {
  const { routes } = await read({ "/a/b": { get: {}, put: {} }, "/c": { get: { operationId: "get_a_b" } } });
  expect(routes.map(({ details }) => details.name)).toEqual(["get-a-b", "put-a-b", "get-a-b-2"]);
});

test("Reads a price in dollars that is fixed, and no other", async () => {
  const priced = (price: unknown) => readOne({ "x-payment-info": { price } });
  expect(await priced({ mode: "fixed", currency: "USD", amount: "0.05" })).toMatchObject({ price: "$0.05" });
  for (const price of [
    { mode: "dynamic", currency: "USD", min: "0", max: "1" },
    { mode: "fixed", currency: "EUR", amount: "0.05" },
    { mode: "fixed", currency: "USD", amount: "free" },
    "0.05",
  ])
    expect(await priced(price)).not.toHaveProperty("price");
});

test.each([
  [{ price: { mode: "fixed", currency: "EUR", amount: "0.02" } }, "EUR"],
  [{ price: { mode: "dynamic" } }, "dynamic"],
  ["0.02", '"0.02"'],
  [{}, "nothing"],
])("Says why no price is taken from %j", async (info, named) => {
  const { price, ignoredPrice } = await readOne({ "x-payment-info": info });
  expect([price, ignoredPrice]).toEqual([
    undefined,
    expect.stringMatching(`^has .*${named}.*; expected mode`),
  ]);
});

test("Says why paths, an operation or a schema cannot be read", async () => {
  expect((await describedApi({ content: { paths: [] } })).leftOut).toMatchObject([
    { operation: "paths", reason: expect.stringContaining("are not an object") },
  ]);
  expect((await read({ "/a": { get: "text" } })).leftOut).toEqual([
    { operation: "GET /a", reason: "is not an object" },
  ]);
  let schema: object = {};
  for (let depth = 0; depth < 20_000; depth++) schema = { items: schema };
  const parameters = [{ name: "q", in: "query", schema }];
  expect((await read({ "/a": { get: { parameters } } })).leftOut).toEqual([
    { operation: "GET /a", reason: "has a schema that is nested too deeply" },
  ]);
});

test("Sends the credentials of the URL of a description as Basic, and shows them nowhere", async () => {
  const seen: (string | undefined)[] = [];
  const server = await listenHttp({
    handler: ({ headers }, response) => {
      seen.push(headers.authorization);
      response.end(seen.length === 1 ? JSON.stringify({ openapi: "3.1.0", paths: {} }) : "-");
    },
  });
  onTestFinished(() => server.stop());
  const source = server.url.replace("//", "//user:s3cret@");
  expect(await readDescription(source)).toMatchObject({ url: server.url });
  expect(seen).toEqual([`Basic ${Buffer.from("user:s3cret").toString("base64")}`]);
  for (const wrong of [source, "http://user:s3cret@"]) {
    const refusal = await readDescription(wrong).catch(String);
    expect(refusal).toMatch(/^Refusal: .*expected/);
    expect(refusal).not.toContain("s3cret");
  }
});

test("Sends the query of the URL of a description, and shows it nowhere", async () => {
  const seen: (string | undefined)[] = [];
  const server = await listenHttp({
    handler: ({ url }, response) => {
      seen.push(url);
      response.end(seen.length === 1 ? JSON.stringify({ openapi: "3.1.0", paths: {} }) : "-");
    },
  });
  onTestFinished(() => server.stop());
  const source = `${server.url}/openapi.json?key=s3cret`;
  expect(await readDescription(source)).toMatchObject({ url: server.url });
  expect(seen).toEqual(["/openapi.json?key=s3cret"]);
  const refusal = await readDescription(source).catch(String);
  expect(refusal).toContain(`${server.url}/openapi.json?… is `);
  expect(refusal).not.toContain("s3cret");
});

test("Reads no more of a file than of an answer", async () => {
  await expect(readDescription("/dev/zero")).rejects.toThrow("/dev/zero is larger than 67108864 bytes");
});

test("Renames parameters of the path that no route can have", async () => {
  const parameters = [{ name: "thing-id", in: "path", required: true, schema: { type: "integer" } }];
  const { routes } = await read({ "/things/{thing-id}/{rest+}": { parameters, get: {} } });
  expect(routes).toMatchObject([
    {
      route: "GET /things/{thing_id}/{rest...}",
      details: { query: { properties: { thing_id: { type: "integer" } }, required: [] } },
    },
  ]);
});

test("Leaves out operations whose path no route can have, or that refer to nothing, with the reason", async () => {
  const broken = { parameters: [{ $ref: "#/components/parameters/None" }] };
  const { routes, leftOut } = await read({
    "/things//a": { get: {} },
    "/": { get: {} },
    "/things/{id}.json": { get: {} },
    "/things/{id}/{ID}": { get: {} },
    "/broken": { get: broken, post: { parameters: [{ $ref: "others.yaml#/City" }] } },
    "/fine": { get: {}, head: {}, options: {} },
    "/fine/": { get: {} },
  });
  expect(routes.map(({ route }) => route)).toEqual(["GET /fine", "GET /fine/"]);
  expect(leftOut).toEqual([
    { operation: "GET /things//a", reason: "has an empty segment" },
    { operation: "GET /", reason: "has an empty segment" },
    { operation: "GET /things/{id}.json", reason: "has a parameter that is a part of a segment" },
    { operation: "GET /things/{id}/{ID}", reason: "has a path that no route can have" },
    {
      operation: "GET /broken",
      reason: "refers to #/components/parameters/None, which the description does not have",
    },
    { operation: "POST /broken", reason: "refers to others.yaml#/City, which is outside of the description" },
  ]);
});

test("Reads the fields of the query, the operation's fields before its path's fields", async () => {
  const ofPath = [
    { name: "page", in: "query", required: true, schema: { type: "string" } },
    { name: "units", in: "query", required: true, schema: { type: "string" } },
  ];
  const own = [
    { name: "page", in: "query", description: "Number of it", example: 2, schema: { type: "integer" } },
    { name: "filter", in: "query", style: "deepObject", schema: { type: "object" } },
    { name: "required", in: "query", schema: { type: "string" } },
    { name: "session", in: "cookie", schema: { type: "string" } },
  ];
  const { routes } = await read({ "/things": { parameters: ofPath, get: { parameters: own } } });
  expect(routes[0]?.details.query).toEqual({
    properties: {
      page: { type: "integer", description: "Number of it", examples: [2] },
      units: { type: "string" },
    },
    required: ["units"],
  });
});

test.each([
  [
    "of one type and null",
    { anyOf: [{ type: "integer", maximum: 9 }, { type: "null" }] },
    { type: "integer", maximum: 9 },
  ],
  ["nullable", { type: "integer", nullable: true }, { type: "integer" }],
  ["of values without a type", { enum: [1, 2] }, { enum: [1, 2], type: "number" }],
  ["of several types", { anyOf: [{ type: "integer" }, { type: "string", format: "date" }] }, {}],
  ["of a reference", { $ref: "#/components/schemas/Unit" }, { type: "string", enum: ["metric", "kelvin"] }],
  [
    "of a joined reference",
    { allOf: [{ $ref: "#/components/schemas/Unit" }], default: "kelvin" },
    { type: "string", enum: ["metric", "kelvin"], default: "kelvin" },
  ],
  [
    "of a list",
    { type: "array", items: { $ref: "#/components/schemas/Unit" } },
    { type: "array", items: { type: "string", enum: ["metric", "kelvin"] } },
  ],
  ["of a circle", { $ref: "#/components/schemas/Circle" }, {}],
  ["with a wrong pattern", { type: "string", pattern: "(" }, {}],
  ["with a text that would name a variable", { type: "string", default: "env:HOME" }, {}],
])("Reads a field %s", async (_, schema, expected) => {
  const schemas = {
    Unit: { type: "string", enum: ["metric", "kelvin"], "x-order": 1 },
    Circle: { allOf: [{ $ref: "#/components/schemas/Circle" }] },
  };
  expect(await readField({ schema }, { components: { schemas } })).toEqual(expected);
});

test("Accepts any text for a list that is sent in one field", async () => {
  const schema = { type: "array", items: { type: "integer" } };
  expect(await readField({ schema, explode: false })).toEqual({});
  expect(await readField({ schema, style: "pipeDelimited" })).toEqual({});
  expect(await readField({ content: { "application/json": { schema } } })).toEqual({});
});

test("Forwards the headers that an operation takes, but no credentials", async () => {
  const header = (name: string) => ({ name, in: "header", schema: { type: "string" } });
  const { details } = await readOne({
    parameters: ["X-Units", "Authorization", "X-Api-Key", "Accept", "X-Forwarded-For"].map(header),
  });
  expect(details.forwardHeaders).toEqual(["accept", "accept-language", "content-type", "x-units"]);
});

test("Takes a POST for repeatable only if it takes an Idempotency-Key", async () => {
  const parameters = [{ name: "Idempotency-Key", in: "header", schema: { type: "string" } }];
  expect((await readOne({ parameters }, {}, "POST /things")).details.isIdempotent).toBe(true);
  expect((await readOne({}, {}, "POST /things")).details.isIdempotent).toBe(false);
  expect((await readOne({}, {}, "PUT /things")).details).not.toHaveProperty("isIdempotent");
});

test("Makes JSON Schema 2020-12 of a body, with all that it refers to", async () => {
  const schemas = {
    Tree: {
      type: "object",
      required: ["id", "name"],
      properties: {
        id: { type: "integer", readOnly: true },
        name: { type: "string", nullable: true, example: "oak" },
        height: { type: "number", minimum: 0, exclusiveMinimum: true },
        $ref: { type: "string" },
        trees: { type: "array", items: { $ref: "#/components/schemas/Tree" } },
      },
    },
  };
  expect(await readBody({ $ref: "#/components/schemas/Tree" }, { components: { schemas } })).toEqual({
    $ref: "#/$defs/Tree",
    $defs: {
      Tree: {
        type: "object",
        required: ["name"],
        properties: {
          id: { type: "integer", readOnly: true },
          name: { type: ["string", "null"] },
          height: { type: "number", exclusiveMinimum: 0 },
          $ref: { type: "string" },
          trees: { type: "array", items: { $ref: "#/$defs/Tree" } },
        },
      },
    },
  });
});

test("Keeps an example of a body that matches, and no other", async () => {
  const schema = { type: "object", required: ["text"], properties: { text: { type: "string" } } };
  const input = async (media: Operation) => {
    const requestBody = { content: { "application/json": { schema, ...media } } };
    return (await readOne({ requestBody }, {}, "POST /things")).details.input;
  };
  expect(JSON.parse((await input({ example: { text: "a" } }))?.example ?? "")).toEqual({ text: "a" });
  const examples = { short: { value: { text: "b" } } };
  expect(JSON.parse((await input({ examples }))?.example ?? "")).toEqual({ text: "b" });
  expect(await input({ example: { text: 1 } })).not.toHaveProperty("example");
});

test("Leaves a body to the API that is optional, of another type, or without a valid schema", async () => {
  const input = async (requestBody: Operation) =>
    (await readOne({ requestBody }, {}, "POST /things")).details.input;
  const json = { schema: { type: "object" } };
  expect(await input({ content: { "application/json": json } })).toEqual({ contentType: "application/json" });
  const both = { "multipart/form-data": {}, "application/json": json };
  expect(await input({ required: true, content: both })).toEqual({ contentType: "application/json" });
  const broken = { schema: { type: "thing" } };
  expect(await input({ required: true, content: { "application/json": broken } })).toEqual({
    contentType: "application/json",
  });
  expect(await input({ required: true, content: { "*/*": {} } })).toBeUndefined();
});

test.each([
  [
    [{ url: "https://{host}/v1/", variables: { host: { default: "a.example" } } }],
    undefined,
    "https://a.example/v1",
  ],
  [[{ url: "/v2" }], "http://127.0.0.1:8000/docs/openapi.json", "http://127.0.0.1:8000/v2"],
  [undefined, "http://127.0.0.1:8000/docs/openapi.json", "http://127.0.0.1:8000"],
  [[{ url: "/v2" }], undefined, undefined],
])("Finds the API of the servers %j of a description at %s", async (servers, url, expected) => {
  const content = { openapi: "3.0.3", paths: {}, servers };
  expect((await describedApi({ content, ...(url === undefined ? {} : { url }) })).url).toBe(expected);
});

async function readFileWith(text: string) {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-openapi-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, "api.yaml");
  await writeFile(file, text);
  return readDescription(file);
}

test("Reads YAML, and JSON with a mark of byte order", async () => {
  const yaml =
    "openapi: 3.1.0\ninfo: {title: Y}\npaths:\n  /a:\n    get: {responses: {200: {description: ok}}}\n";
  expect((await readFileWith(yaml)).routes).toMatchObject([{ route: "GET /a" }]);
  expect((await readFileWith('\ufeff{"openapi":"3.0.0","paths":{}}')).routes).toEqual([]);
});

test.each([
  ['{"swagger":"2.0"}', /is Swagger 2\.0; expected an OpenAPI description of version 3\.0 or later/],
  ['{"openapi":"4.0"}', /has "4\.0" as openapi; expected/],
  ["- 1", /is not an object; expected/],
  ["{", /is neither JSON nor YAML: .*; expected/],
  ["a: [", /is neither JSON nor YAML: .*; expected/],
])("Refuses the description %s", async (text, reason) => {
  await expect(readFileWith(text)).rejects.toThrow(reason);
});
