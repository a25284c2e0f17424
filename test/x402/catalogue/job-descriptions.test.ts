import { encodePaymentRequiredHeader } from "@x402/core/http";
import { parsePaymentRequired } from "@x402/core/schemas";
import type { PaymentPayload, PaymentRequirementsV1 } from "@x402/core/types";
import {
  extractDiscoveryInfo,
  extractDiscoveryInfoV1,
  sanitizeResourceServiceMetadata,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
} from "@x402/extensions/bazaar";
import { describe, expect, it } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import type { Bazaar } from "../../../src/x402/catalogue/bazaar.ts";
import { JobDescriptions } from "../../../src/x402/catalogue/job-descriptions.ts";
import { sellerOf } from "../../../src/x402/catalogue/seller.ts";
import { GAS_SPONSORING } from "../../../src/x402/wire/gas-sponsoring.ts";
import { type Offer, toRequirements, toRequirementsV1 } from "../../../src/x402/wire/offer.ts";
import { IdentifierRule } from "../../../src/x402/wire/payment-identifier.ts";
import { accounts } from "../../helpers/accounts.ts";
import { PUBLIC_URL } from "../gateway-harness.ts";
import { offersOf, read, signedPayload } from "../payments.ts";

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
function describeJob(job: Partial<Job> & { schema?: unknown; example?: unknown }, publicUrl = PUBLIC_URL) {
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
    identifiers: new IdentifierRule([]),
    extensionsOf: () => [],
    clock: Date.now,
  }).of(KEY);
  return { ...description, bazaar: description.extensions.bazaar as Bazaar };
}

type Extension = Parameters<typeof validateDiscoveryExtension>[0];
const VALID = { valid: true };

/** Checks that the official library takes the description in both protocol versions. */
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
  const v1 = toRequirementsV1(offer, described) as PaymentRequirementsV1;
  expect(v1).toMatchObject({ resource: resource.url, description: resource.description });
  expect(extractDiscoveryInfoV1(v1 as never)).toMatchObject({ input: { method: "POST", bodyType: "json" } });
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

it("The promise of an offer is a sentence of its own after the description, within its 300 characters", () => {
  const offers = offersOf().map((offer) => ({ ...offer, onFailure: "refund" as const }));
  const described = (text: { title: string } | { description: string }) => {
    const descriptions = new JobDescriptions({
      jobs: [{ ...KEY, ...text }],
      seller: sellerOf({ publicUrl: PUBLIC_URL }),
      identifiers: new IdentifierRule([]),
      extensionsOf: () => [],
      clock: Date.now,
    });
    return descriptions.withOffers(KEY, offers).resource.description;
  };
  expect(described({ title: "Speech to text" })).toBe("Speech to text. Refunded if it fails.");
  expect(described({ description: "Writes it down." })).toBe("Writes it down. Refunded if it fails.");
  const long = described({ description: "ä".repeat(4_000) });
  expect(long).toMatch(/ä… Refunded if it fails\.$/);
  expect(long?.length).toBeLessThanOrEqual(300);
});

describe("The extensions of a payment", () => {
  let nowMs = 1_000_000;
  const withExample = (example: string) =>
    new JobDescriptions({
      jobs: [{ ...KEY, input: { contentType: "text/plain", example } }],
      seller: sellerOf({ publicUrl: PUBLIC_URL }),
      identifiers: new IdentifierRule([]),
      extensionsOf: () => [],
      clock: () => nowMs,
    });
  const check = (descriptions: JobDescriptions, extensions: object | undefined) => () =>
    descriptions.checkEcho({ x402Version: 2, extensions } as unknown as PaymentPayload, KEY);
  const CHANGED = expect.objectContaining({
    code: "payment_mismatch",
    details: { reason: "extension_echo_mismatch", extension: "bazaar" },
  });

  it("May be filled in for gas sponsoring, whose declaration may not be changed", () => {
    const descriptions = withExample("a");
    const info = { ...GAS_SPONSORING.eip2612GasSponsoring?.info, from: accounts.payer.address, amount: "1" };
    expect(check(descriptions, { eip2612GasSponsoring: { info } })).not.toThrow();
    expect(check(descriptions, { eip2612GasSponsoring: { info: { ...info, version: "2" } } })).toThrow(
      expect.objectContaining({
        details: { reason: "extension_echo_mismatch", extension: "eip2612GasSponsoring" },
      }),
    );
  });

  it("May be left out or added to, but not changed", () => {
    const descriptions = withExample("abc");
    const { extensions } = descriptions.of(KEY);
    const { info, ...bazaar } = extensions.bazaar as Bazaar;
    const added = { ...info, input: { ...info.input, more: 1 }, more: 1 };
    for (const echo of [
      undefined,
      {},
      extensions,
      { other: {} },
      { bazaar: { info: added } },
      { bazaar: {} },
    ]) {
      expect(check(descriptions, echo)).not.toThrow();
    }
    for (const input of [{ ...info.input, body: "other" }, { ...info.input, method: "GET" }, null, "post"]) {
      expect(check(descriptions, { ...extensions, bazaar: { ...bazaar, info: { ...info, input } } })).toThrow(
        CHANGED,
      );
    }
  });

  it("May be those of an earlier configuration while its offers are open", () => {
    const [first, second, third] = [withExample("one"), withExample("two"), withExample("three")];
    second.replaces(first, 300);
    nowMs += 100_000;
    third.replaces(second, 300);
    const echoed = [first, second, third].map((descriptions) => descriptions.of(KEY).extensions);
    for (const extensions of echoed) expect(check(third, extensions)).not.toThrow();
    nowMs += 200_000;
    expect(check(third, echoed[0])).toThrow(CHANGED);
    expect(check(third, echoed[1])).not.toThrow();
    nowMs += 100_000;
    expect(check(third, echoed[1])).toThrow(CHANGED);
  });
});
