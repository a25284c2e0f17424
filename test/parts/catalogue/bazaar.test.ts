import { encodePaymentRequiredHeader } from "@x402/core/http";
import { parsePaymentRequired } from "@x402/core/schemas";
import type { PaymentPayload } from "@x402/core/types";
import {
  extractDiscoveryInfo,
  sanitizeResourceServiceMetadata,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
} from "@x402/extensions/bazaar";
import { describe, expect, it } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import { type Bazaar, bazaarExtension } from "../../../src/parts/catalogue/bazaar.ts";
import { JobDescriptions } from "../../../src/x402/jobs/job-descriptions.ts";
import { sellerOf } from "../../../src/x402/jobs/seller.ts";
import type { Terms } from "../../../src/x402/purchase/terms.ts";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { PUBLIC_URL } from "../../x402/gateway-harness.ts";
import { METHODS, offersOf, read, signedPayload } from "../../x402/payments.ts";

const KEY = { serviceId: 1n, jobIndex: 3 };
const NESTED = {
  $id: "https://example.com/text.json",
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: { text: { $ref: "#/$defs/text" }, next: { $ref: "#" }, const: { $ref: "#/$defs/text" } },
  required: ["text"],
  $defs: { text: { type: "string", default: { $ref: "#/untouched" } } },
};

/** Describes a job with this input. */
function describeJob(
  job: Partial<Job> & { schema?: unknown; example?: unknown },
  publicUrl = PUBLIC_URL,
  terms: readonly Terms[] = [],
) {
  const { schema, example, ...rest } = job;
  const input = {
    contentType: "application/json",
    ...(schema !== undefined && { schema: JSON.stringify(schema) }),
    ...(example !== undefined && { example: JSON.stringify(example) }),
  };
  const jobs = [{ ...KEY, input, ...rest }];
  const seller = sellerOf({ publicUrl });
  const description = new JobDescriptions({
    jobs,
    seller,
    methods: METHODS,
    declares: [bazaarExtension],
    facilitators: { extensionsOf: () => [] },
    terms,
  }).of(KEY);
  return { ...description, bazaar: description.extensions.bazaar as Bazaar };
}

type Extension = Parameters<typeof validateDiscoveryExtension>[0];
const VALID = { valid: true };

/** Checks that the official library takes the description. */
async function expectCatalogued(described: ReturnType<typeof describeJob>) {
  const { bazaar, resource, extensions } = described;
  const extension = bazaar as unknown as Extension;
  expect(validateDiscoveryExtension(extension)).toEqual(VALID);
  expect(validateDiscoveryExtensionSpec(extension as never)).toEqual(VALID);
  const { serviceName, tags = [] } = resource;
  expect({ tags: [], ...sanitizeResourceServiceMetadata(resource) }).toEqual({ serviceName, tags });
  const [offer] = offersOf() as [Offer];
  const required = { x402Version: 2, resource, accepts: [toRequirements(offer)], extensions };
  expect(parsePaymentRequired(required).success).toBe(true);
  // As @x402/core's client sends it back.
  const payload = { ...(await signedPayload()), resource, extensions } as PaymentPayload;
  read(payload);
  expect(extractDiscoveryInfo(payload, toRequirements(offer))).toMatchObject({
    resourceUrl: resource.url,
    method: "POST",
    discoveryInfo: bazaar.info,
  });
  return encodePaymentRequiredHeader(required as never).length;
}

describe("A job in a 402", () => {
  it("Has its description, schema and example, which facilitators catalogue", async () => {
    const described = describeJob({
      description: "Returns a summary.",
      tags: ["text", "naïve", "x".repeat(33), "a", "b", "c", "d"],
      output: { contentType: "text/plain" },
      schema: NESTED,
      example: { text: "abc", next: { text: "d" } },
    });
    expect(described.resource).toEqual({
      url: `${PUBLIC_URL}/x402/jobs/1/3`,
      description: "Returns a summary.",
      mimeType: "text/plain",
      serviceName: "operator.example.com",
      tags: ["text", "a", "b", "c", "d"],
    });
    expect(described.bazaar.info).toEqual({
      input: {
        type: "http",
        method: "POST",
        bodyType: "json",
        body: { text: "abc", next: { text: "d" } },
      },
      output: { type: "text", format: "text/plain" },
    });
    const place = "#/properties/input/properties/body";
    expect(described.bazaar.schema.properties.input.properties.body).toEqual({
      type: "object",
      properties: {
        text: { $ref: `${place}/$defs/text` },
        next: { $ref: place },
        const: { $ref: `${place}/$defs/text` },
      },
      required: ["text"],
      $defs: { text: { type: "string", default: { $ref: "#/untouched" } } },
    });
    await expectCatalogued(described);
    const wrong = structuredClone(described.bazaar) as unknown as Extension;
    Object.assign(wrong.info.input, { body: { text: 1 } });
    expect(validateDiscoveryExtension(wrong).valid).toBe(false);
  });

  it("Has the schema and the example of its result, unless they make it too large", async () => {
    const output = (example: object) => ({
      contentType: "application/json",
      schema: JSON.stringify(NESTED),
      example: JSON.stringify(example),
    });
    const described = describeJob({ output: output({ text: "abc" }) });
    const place = "#/properties/output/properties/example";
    expect(described.bazaar.info.output).toEqual({
      ...{ type: "json", format: "application/json" },
      example: { text: "abc" },
    });
    expect(described.bazaar.schema.properties.output.properties.example).toMatchObject({
      properties: { next: { $ref: place } },
    });
    await expectCatalogued(described);
    const large = describeJob({ output: output({ text: "a".repeat(2_000) }), schema: NESTED });
    expect(large.bazaar.info.output).toEqual({ type: "json", format: "application/json" });
    expect(large.bazaar.schema.properties.output.properties.example).toEqual({});
    expect(large.bazaar.schema.properties.input.properties.body).toMatchObject({ type: "object" });
    expect(describeJob({}).bazaar.schema.properties.output).toEqual({
      ...{ type: "object", properties: { example: {} } },
    });
  });

  it("Has the headers that buyers send", () => {
    const headers = { "X-CHAIN-CALLER": "Who asks" };
    const terms = [{ accessTo: () => ({ mode: "delegated_caller_signature", note: "For some.", headers }) }];
    const { bazaar } = describeJob({}, PUBLIC_URL, terms);
    expect(validateDiscoveryExtension(bazaar as unknown as Extension)).toEqual(VALID);
    expect(bazaar.schema.properties.input.properties).toMatchObject({
      headers: { properties: { "X-CHAIN-CALLER": { type: "string" } } },
    });
  });

  it("Has the schemas of its path and query, and an example of a query that matches", () => {
    const route = parseRoute("GET /weather/{city}") as Route;
    const city = { type: "string", maxLength: 10 };
    const properties = { city, units: { enum: ["metric", "kelvin"] }, days: { type: "integer" } };
    const described = (required: string[]) =>
      describeJob({ route, parameters: { properties, required, additionalProperties: true } });
    const { bazaar } = described(["units"]);
    expect(validateDiscoveryExtension(bazaar as unknown as Extension)).toEqual(VALID);
    expect(bazaar.info.input).toEqual({ type: "http", method: "GET", queryParams: { units: "metric" } });
    const { city: _, ...fields } = properties;
    expect(bazaar.schema.properties.input.properties).toMatchObject({
      queryParams: { properties: fields, required: ["units"] },
      pathParams: { properties: { city } },
    });
    const withoutExample = described(["days"]).bazaar;
    expect(validateDiscoveryExtension(withoutExample as unknown as Extension)).toEqual(VALID);
  });

  it("Is catalogued whatever its input is, in a header of a few KB", async () => {
    let deep: object = { type: "string" };
    for (let i = 0; i < 20; i++) deep = { properties: { in: deep } };
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`field${i}`, { type: "string" }]));
    for (const job of [
      { input: undefined },
      { schema: { type: "array" } },
      { schema: true, example: null },
      { schema: deep },
      { schema: { properties: many }, example: { field0: "a" } },
      { schema: { properties: many }, example: { field0: "a".repeat(3_000) } },
      { schema: { properties: { part: { $id: "https://example.com/part", $ref: "#/$defs/a" } } } },
      { description: "ä".repeat(4_000) },
    ] as Parameters<typeof describeJob>[0][]) {
      expect(await expectCatalogued(describeJob(job))).toBeLessThan(6_000);
    }
    const shown = (job: Parameters<typeof describeJob>[0]) => {
      const { info, schema } = describeJob(job).bazaar;
      return [info.input.body, schema.properties.input.properties.body];
    };
    const schema = { properties: many };
    expect(shown({ schema, example: { field0: "a" } })).toEqual([{ field0: "a" }, {}]);
    expect(shown({ schema: { type: "array" } })).toEqual([undefined, { type: "array" }]);
    expect(shown({ schema, example: { field0: "a".repeat(3_000) } })).toEqual([{}, {}]);
  });

  it("Is an entry of its own in a catalogue, and has a service name of at most 32 characters", async () => {
    const described = describeJob({}, `https://${"long.".repeat(10)}example.com/shop`);
    expect(described.bazaar).not.toHaveProperty("routeTemplate");
    expect(described.resource.serviceName).toBe("long.long.long.long.long.long.lo");
    await expectCatalogued(described);
    expect(sellerOf({ publicUrl: PUBLIC_URL, serviceName: "Summaries" }).serviceName).toBe("Summaries");
  });
});
