import { expect, test } from "vitest";
import { loadFiles, mistakesOf, TOKEN, X402 } from "../config-folder.ts";

const SCHEMA = '{"type":"object","required":["text"]}';
const withInput = (input: string) =>
  `${X402}${TOKEN}[[jobs]]\njob_index = 0\nprice_wei = "1000000000000000"\ninput = ${input}\n`;

test("A job's input has the contents of the files beside the configuration", async () => {
  const result = await loadFiles({
    "jobgate.toml": withInput('{ schema = "schema.json", example = "$DIR/example.json" }'),
    "schema.json": SCHEMA,
    "example.json": '{"text":"hello"}',
  });
  expect(result.ok && result.config.x402?.jobs?.[0]?.input).toEqual({
    contentType: "application/json",
    schema: SCHEMA,
    example: '{"text":"hello"}',
  });
});

test.each([
  ["cannot be read", '{ schema = "none.json" }', "schema", /cannot be read: no such file/],
  ["is not JSON", '{ schema = "broken.json" }', "schema", /names broken.json, which is not JSON/],
  [
    "does not compile",
    '{ schema = "typo.json" }',
    "schema",
    /names typo.json, which is invalid: \/type must be equal to one of the allowed values/,
  ],
  [
    "is for another type than JSON",
    '{ schema = "schema.json", content_type = "text/plain" }',
    "schema",
    /is for a body that is not JSON/,
  ],
  [
    "is nested 5,000 deep",
    '{ schema = "deep.json" }',
    "schema",
    /names deep.json, which is nested more than 200 levels deep; expected JSON Schema/,
  ],
  [
    "has an example that is nested 100,000 deep",
    '{ schema = "schema.json", example = "deep-example.json" }',
    "example",
    /^is nested more than 200 levels deep/,
  ],
  [
    "its own example does not match",
    '{ schema = "schema.json", example = "empty.json" }',
    "example",
    /does not match the schema: \/text must have required property 'text'/,
  ],
])("A schema that %s is a mistake", async (_, input, key, message) => {
  const [mistake, ...more] = await mistakesOf({
    "jobgate.toml": withInput(input),
    "schema.json": SCHEMA,
    "broken.json": "{",
    "typo.json": '{"type":"objekt"}',
    "empty.json": "{}",
    "deep.json": `${'{"items":'.repeat(5_000)}{}${"}".repeat(5_000)}`,
    "deep-example.json": "[".repeat(100_000) + "]".repeat(100_000),
  });
  expect([mistake?.place, more]).toEqual([`jobgate.toml:17 jobs[0].input.${key}`, []]);
  expect(mistake?.message).toMatch(message);
});

test("The schema and the example of a result are checked like the schema and the example of a body", async () => {
  const withOutput = (output: string) =>
    withInput('{ schema = "schema.json" }').replace(/$/, `\noutput = ${output}`);
  const files = { "schema.json": SCHEMA, "empty.json": "{}" };
  for (const [output, key, message] of [
    ['{ content_type = "text/plain", schema = "schema.json" }', "schema", /is for a body that is not JSON/],
    [
      '{ content_type = "application/json", schema = "schema.json", example = "empty.json" }',
      "example",
      /does not match the schema/,
    ],
  ] as const) {
    const [mistake, ...more] = await mistakesOf({ ...files, "jobgate.toml": withOutput(output) });
    expect([mistake?.place, more]).toEqual([expect.stringContaining(`jobs[0].output.${key}`), []]);
    expect(mistake?.message).toMatch(message);
  }
});
