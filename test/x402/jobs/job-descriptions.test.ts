import { expect, it } from "vitest";
import { JobDescriptions } from "../../../src/x402/jobs/job-descriptions.ts";
import { sellerOf } from "../../../src/x402/jobs/seller.ts";
import { PUBLIC_URL } from "../gateway-harness.ts";
import { METHODS, offersOf } from "../payments.ts";

const KEY = { serviceId: 1n, jobIndex: 3 };

it("A job is described with the extensions that are declared for it, in their order", () => {
  const descriptions = new JobDescriptions({
    jobs: [{ ...KEY, title: "Speech to text" }],
    seller: sellerOf({ publicUrl: PUBLIC_URL }),
    methods: METHODS,
    declares: [({ title }) => ({ one: { info: { title } } }), () => ({ two: {} })],
    facilitators: { extensionsOf: () => [] },
  });
  const { extensions } = descriptions.of(KEY);
  expect(JSON.stringify(extensions)).toBe('{"one":{"info":{"title":"Speech to text"}},"two":{}}');
});

it("A job is described without any extension", () => {
  const descriptions = new JobDescriptions({
    jobs: [],
    seller: sellerOf({ publicUrl: PUBLIC_URL }),
    methods: METHODS,
    declares: [],
    facilitators: { extensionsOf: () => [] },
  });
  expect(descriptions.withOffers(KEY, offersOf())).toMatchObject({
    resource: { url: `${PUBLIC_URL}/x402/jobs/1/3`, description: "Job 3 of service 1" },
    extensions: {},
  });
});

it("The promise of an offer is a sentence of its own after the description, within its 300 characters", () => {
  const offers = offersOf().map((offer) => ({ ...offer, onFailure: "again" }));
  const promises = [{ name: "again", text: "Runs again if it fails." }];
  const described = (text: { title: string } | { description: string }) => {
    const descriptions = new JobDescriptions({
      jobs: [{ ...KEY, ...text }],
      seller: sellerOf({ publicUrl: PUBLIC_URL, promises }),
      methods: METHODS,
      declares: [],
      facilitators: { extensionsOf: () => [] },
    });
    return descriptions.withOffers(KEY, offers).resource.description;
  };
  expect(described({ title: "Speech to text" })).toBe("Speech to text. Runs again if it fails.");
  expect(described({ description: "Writes it down." })).toBe("Writes it down. Runs again if it fails.");
  const long = described({ description: "ä".repeat(4_000) });
  expect(long).toMatch(/ä… Runs again if it fails\.$/);
  expect(long?.length).toBeLessThanOrEqual(300);
});
