import type { PaymentRequirementsV1 } from "@x402/core/types";
import { declareDiscoveryExtension, extractDiscoveryInfoV1 } from "@x402/extensions/bazaar";
import { expect, it } from "vitest";
import { VERSION_1 } from "../../../src/parts/version-1/version-1.ts";
import type { JobDescription, Offer } from "../../../src/x402/wire/offer.ts";
import { offersOf } from "../../x402/payments.ts";

const RESOURCE = { url: "https://operator.example.com/x402/jobs/1/0" };
const [OFFER] = offersOf() as [Offer];

/** Returns what the official library reads of a job's requirements. */
function discovered(extensions: JobDescription["extensions"]) {
  const requirements = VERSION_1.requirementsOf(OFFER, { resource: RESOURCE, extensions });
  return extractDiscoveryInfoV1(requirements as PaymentRequirementsV1);
}

it("The facts of the extension bazaar are read by the official library for version 1", () => {
  const bodyType = "json" as const;
  const input = { text: "abc" };
  const output = { example: { length: 3 } };
  const { bazaar } = declareDiscoveryExtension({ bodyType, input, inputSchema: {}, output });
  Object.assign((bazaar as { info: { input: object } }).info.input, { method: "POST" });
  expect(discovered({ bazaar })).toMatchObject({ input: { method: "POST", bodyType, body: input } });
});

it("The fields of a query are the fields of its schema", () => {
  const properties = { units: { enum: ["metric", "kelvin"] } };
  const bazaar = {
    info: {
      input: { type: "http", method: "GET", queryParams: { units: "metric" } },
      output: { type: "json" },
    },
    schema: { properties: { input: { properties: { queryParams: { type: "object", properties } } } } },
  };
  const requirements = VERSION_1.requirementsOf(OFFER, { resource: RESOURCE, extensions: { bazaar } });
  expect(requirements?.outputSchema).toEqual({
    input: { discoverable: true, type: "http", method: "GET", queryParams: properties },
    output: { type: "json" },
  });
});

it("A job without the extension has an empty schema", () => {
  const requirements = VERSION_1.requirementsOf(OFFER, { resource: RESOURCE, extensions: { other: {} } });
  expect(requirements?.outputSchema).toEqual({});
  expect(discovered({})).toBeNull();
});
