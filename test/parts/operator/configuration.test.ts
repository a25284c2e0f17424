import { expect, test } from "vitest";
import * as z from "zod";
import { optionFor, withoutDefault } from "../../../src/config/check-shape.ts";
import { schemaWith } from "../../../src/config/load-config.ts";
import { MistakeList } from "../../../src/config/mistakes.ts";
import { type Shown, shownTable } from "../../../src/config/shown.ts";
import { expected, kind, notesOf, SHOWN } from "../../../src/config/wrong-value.ts";
import { partKeys } from "../../../src/load-parts.ts";
import { configOf } from "../../config/config-folder.ts";
import { callJson, startOperator } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { KEYS, loadFullConfiguration, SECRET } from "./full-configuration.ts";

const jobgate = startBeforeAll(async () => {
  const { config, folders } = await loadFullConfiguration();
  return { ...(await startOperator({ configuration: config })), folders };
});

test("GetConfiguration shows every table of the file, with defaults and without secrets", async () => {
  const { answer } = await callJson(jobgate.url, "GetConfiguration");
  const text = JSON.stringify(answer.configuration);
  const shown = jobgate.folders.reduce((rest, folder) => rest.replaceAll(folder, "FOLDER"), text);
  await expect(JSON.parse(shown)).toMatchFileSnapshot("./full-configuration.snap");
});

test("No answer of the API holds a secret of the configuration", async () => {
  for (const method of ["GetConfiguration", "GetInfo", "ListRates", "ListRunners"]) {
    const { status, answer } = await callJson(jobgate.url, method);
    expect(status).toBe(200);
    for (const secret of [SECRET, ...Object.values(KEYS)])
      expect(JSON.stringify(answer)).not.toContain(secret);
  }
});

test("GetConfiguration leaves out gateways that are not configured", async () => {
  const plain = await startOperator({ configuration: await configOf("") });
  const { answer } = await callJson(plain.url, "GetConfiguration");
  await plain.stop();
  const shown = answer.configuration as Record<string, unknown>;
  expect(shown).not.toHaveProperty("x402");
  expect(shown).not.toHaveProperty("webhooks");
  expect(shown.operator).toMatchObject({ bind_address: "127.0.0.1:8405" });
});

const PATH = `${SECRET}-longer-than-words-of-paths`;

/** Values of which each kind accepts one: plain ones, then URLs with secrets, then what only an origin can be. */
const VALUES = [
  ...[
    1n,
    10n,
    1_000n,
    true,
    "a",
    "1",
    "$0.01",
    "/a",
    "GET /a",
    "a/b",
    "body:KiB",
    "query:a",
    "json:/a",
    "10/s",
    "base",
    `0x${"ab".repeat(20)}`,
    "10.0.0.0/8",
    "a@shop.example",
    "#0a7d5a",
    `a ${"ab".repeat(32)}`,
  ],
  ...["127.0.0.1:1", KEYS.settler],
  `https://${SECRET}:${SECRET}@host.example:444/${PATH}?key=${SECRET}#${SECRET}`,
  `https://${SECRET}:${SECRET}@host.example:444/${PATH}`,
  `postgres://${SECRET}:${SECRET}@host.example/jobgate?password=${SECRET}`,
  "https://host.example",
];

type Preference = typeof z.ZodObject | typeof z.ZodArray | undefined;

/** Returns a value with every key of a schema, and secrets wherever a kind has no view or a URL can have one. */
function sample(declared: z.core.$ZodType, preferred: Preference): unknown {
  const schema = withoutDefault(declared);
  if (schema instanceof z.ZodObject)
    return Object.fromEntries(
      Object.entries<z.ZodType>(schema.shape).map(([key, value]) => [key, sample(value, preferred)]),
    );
  if (schema instanceof z.ZodArray) return [sample(schema.element, preferred)];
  if (schema instanceof z.ZodRecord)
    return { [String(sample(schema.keyType, preferred))]: sample(schema.valueType, preferred) };
  if (schema instanceof z.ZodUnion) {
    const table = preferred === z.ZodObject ? optionFor(schema, {}) : undefined;
    const list = preferred === z.ZodArray ? optionFor(schema, []) : undefined;
    return sample(table ?? list ?? (schema.options[0] as z.ZodType), preferred);
  }
  if (notesOf(schema).view === undefined) return SECRET;
  if (schema instanceof z.ZodEnum) return schema.options[0];
  if (schema instanceof z.ZodLiteral) return schema.value;
  const valid = VALUES.map((value) => z.safeParse(schema, value)).find((result) => result.success);
  if (valid === undefined) throw new Error(`VALUES has none that is ${expected(schema)}`);
  return valid.data;
}

/** Returns the paths of the values that a condition is true for. */
function pathsOf(shown: Shown, condition: (value: string) => boolean, path = ""): string[] {
  if (typeof shown !== "object") return condition(String(shown)) ? [path] : [];
  return Object.entries(shown).flatMap(([key, value]) =>
    pathsOf(value, condition, Array.isArray(shown) ? path : `${path}.${key}`.replace(/^\./, "")),
  );
}

function shownSample(preferred: Preference): Shown {
  const schema = schemaWith(partKeys());
  return shownTable(schema, sample(schema, preferred) as object, new MistakeList().at());
}

test.each([
  ["values", undefined],
  ["arrays", z.ZodArray],
  ["tables", z.ZodObject],
] as const)("No secret of any key is shown, given as %s where keys leave a choice", (_, preferred) => {
  const shown = shownSample(preferred);
  const holdsSecret = (text: string) => text.includes(SECRET) || text.includes(KEYS.settler);
  // Clients see the paths of these URLs.
  expect(pathsOf(shown, holdsSecret)).toEqual(["x402.public_url", "x402.logo", "x402.terms_of_service"]);
  expect(shown).toHaveProperty(["x402", "public_url"], `https://host.example:444/${PATH}`);
});

test("Every key of the core and of the parts is shown, but for these secrets", () => {
  expect(pathsOf(shownSample(z.ZodObject), (text) => text === "set").sort()).toEqual([
    "apis.headers.a",
    "callbacks.secret",
    "operator.token",
    "push.secret",
    "runner.token",
    "webhooks.endpoints.challenge.token",
    "webhooks.endpoints.secret",
    "webhooks.endpoints.secrets.secret",
    "x402.channels.authorizer.password",
    "x402.facilitator_service.tokens.token",
    "x402.facilitators.auth.cdp.key_id",
    "x402.facilitators.auth.cdp.key_secret",
    "x402.facilitators.auth.headers.a",
    "x402.facilitators.fee_payers.eip155:8453",
    "x402.facilitators.signer.password",
    "x402.mpp.secret_key",
    "x402.receipts.signer.password",
    "x402.refunds.accounts.eip155:8453",
    "x402.refunds.signer.password",
  ]);
});

test("A kind whose values are not text, numbers or true or false needs a view of its own", () => {
  const schema = z.string().transform((text) => [text]);
  // @ts-expect-error SHOWN has no text for an array. The type check fails if the compiler accepts SHOWN here.
  expect(() => kind(schema, "a list", SHOWN)).not.toThrow();
});
