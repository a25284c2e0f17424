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
    terms: [],
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
    terms: [],
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
      terms: [],
    });
    return descriptions.withOffers(KEY, offers).resource.description;
  };
  expect(described({ title: "Speech to text" })).toBe("Speech to text. Runs again if it fails.");
  expect(described({ description: "Writes it down." })).toBe("Writes it down. Runs again if it fails.");
  const long = described({ description: "ä".repeat(4_000) });
  expect(long).toMatch(/ä… Runs again if it fails\.$/);
  expect(long?.length).toBeLessThanOrEqual(300);
});

it("The offers of a job that is charged once it has succeeded say so, unless one is charged before", () => {
  const descriptions = new JobDescriptions({
    jobs: [{ ...KEY, title: "Speech to text" }],
    seller: sellerOf({ publicUrl: PUBLIC_URL }),
    methods: METHODS,
    declares: [],
    facilitators: { extensionsOf: () => [] },
    terms: [],
  });
  const [before] = offersOf();
  if (before === undefined) throw new Error("there is no offer");
  const after = { ...before, charge: { kind: "after", runSecs: 60 } };
  const described = (...offers: (typeof before)[]) =>
    descriptions.withOffers(KEY, offers).resource.description;
  expect(described(after)).toBe("Speech to text. It is charged once it has succeeded.");
  expect([described(after, before), described()]).toEqual(["Speech to text", "Speech to text"]);
});

it("Extensions are declared with the headers that buyers send", () => {
  const declared: unknown[] = [];
  const usd = { unit: "usd", amount: 1n } as const;
  const price = { from: usd, upTo: usd, rule: "by the header x-tier", headers: ["x-tier"] };
  const access = { mode: "payer_is_caller", note: "For some.", headers: { "X-CHAIN-NONCE": "A number" } };
  const descriptions = new JobDescriptions({
    jobs: [{ ...KEY, price }],
    seller: sellerOf({ publicUrl: PUBLIC_URL }),
    methods: METHODS,
    declares: [
      (_, headers) => {
        declared.push(headers);
        return {};
      },
    ],
    facilitators: { extensionsOf: () => [] },
    terms: [{ accessTo: () => access }],
  });
  descriptions.of(KEY);
  expect(declared).toEqual([["x-tier", "X-CHAIN-NONCE"]]);
});
