import fc from "fast-check";
import pino from "pino";
import { expect, it } from "vitest";
import type { AcceptedToken } from "../../../src/config/config.ts";
import { monotonicClock } from "../../../src/core/clock.ts";
import type { JobKey } from "../../../src/core/job-call.ts";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import type { HttpResponse } from "../../../src/http/response.ts";
import { JobDescriptions } from "../../../src/x402/jobs/job-descriptions.ts";
import { JobRoutes } from "../../../src/x402/jobs/job-routes.ts";
import { sellerOf } from "../../../src/x402/jobs/seller.ts";
import { JobPolicies } from "../../../src/x402/prices/job-policies.ts";
import { OfferBook } from "../../../src/x402/prices/offer-book.ts";
import { PriceBook } from "../../../src/x402/prices/price-book.ts";
import { type JobPrice, PayableTokens, PriceChecks } from "../../../src/x402/prices/price-source.ts";
import { paymentRequiredResponse, X402Protocol } from "../../../src/x402/protocols/x402-protocol.ts";
import { Checkout } from "../../../src/x402/purchase/checkout.ts";
import { ClientLimits } from "../../../src/x402/purchase/client-limits.ts";
import { BodyChecks, InputChecks } from "../../../src/x402/purchase/input-checks.ts";
import { JobRoute } from "../../../src/x402/purchase/job-route.ts";
import { paymentRequired } from "../../../src/x402/purchase/refused-payments.ts";
import { AnswerExtensions } from "../../../src/x402/wire/extensions.ts";
import { makeOffers, secsUntil } from "../../../src/x402/wire/offer.ts";
import { NO_REQUEST_PRICES } from "../payment-fixtures.ts";
import { EURC, METHODS, requestWith, USDC } from "../payments.ts";

const logger = pino({ level: "silent" });
/** {@link OTHER_VERSION} has no name for its network. */
const WETH: AcceptedToken = { ...USDC, network: "eip155:1", symbol: "WETH", decimals: 18 };
const RUNS = 40;

/** Everything that an answer depends on. */
interface World {
  nowMs: number;
  publicUrl: string;
  quoteTtlSecs: number;
  tokens: readonly AcceptedToken[];
  /** Rates by symbol; a token without one cannot be offered. */
  readonly rates: Map<string, string>;
  /** Prices by job index. */
  readonly prices: Map<number, JobPrice>;
}

function ratesOf(world: World) {
  return {
    rateOf: ({ symbol }: AcceptedToken) => {
      const ratePerNativeUnit = world.rates.get(symbol);
      return ratePerNativeUnit === undefined ? undefined : { ratePerNativeUnit };
    },
  };
}

/** Parts of a gateway that outlive a reload. */
class Parts {
  readonly #world: World;
  readonly #checks: PriceChecks;
  readonly #offers: OfferBook;
  readonly #clock = () => this.#world.nowMs;

  constructor(world: World) {
    this.#world = world;
    const ledger = { saveOffers: async () => {}, findOffers: async () => [] };
    const rates = ratesOf(world);
    this.#checks = new PriceChecks({ rates, clock: this.#clock, logger });
    this.#offers = new OfferBook({ ledger, rates, clock: this.#clock, logger });
  }

  /** Makes the route that a reload makes. */
  route(): JobRoute {
    const { prices: jobPrices, publicUrl, quoteTtlSecs } = this.#world;
    // A configuration that is loaded has tokens of its own.
    const tokens = new PayableTokens(structuredClone(this.#world.tokens));
    const source = this.#checks.payablePrices(
      { priceOf: async ({ jobIndex }) => jobPrices.get(jobIndex) },
      tokens,
    );
    const unused = {} as never;
    const purchase = { requireOpen: () => undefined } as never;
    const limits = { maxUnpaidPerSecondPerClient: 1e9, maxVerifiesPerClient: 1, maxVerifies: 1 };
    const prices = new PriceBook({
      policies: new JobPolicies({ jobPolicies: [], defaultInvocationMode: "public_paid" }, source),
      prices: source,
      offers: this.#offers,
      named: [],
      ofRequests: NO_REQUEST_PRICES,
      tokens,
      promises: [],
      quoteTtlSecs,
      clock: this.#clock,
    });
    return new JobRoute({
      protocol: new X402Protocol({ descriptions: describedAt(publicUrl), methods: METHODS, pages: unused }),
      checkout: new Checkout({
        routes: new JobRoutes({ acceptedTokens: [] }, ["x402"]),
        prices,
        notes: [],
        inputs,
        purchase,
        limits: new ClientLimits({ limits }),
      }),
      waits: unused,
      store: unused,
      waitSecs: new Map(),
      tokens: unused,
      extensions: new AnswerExtensions(),
      sent: unused,
      live: undefined,
      telemetry: NO_TELEMETRY,
      publicUrl,
      refusals: { count: () => undefined, add: () => undefined },
      logger,
    });
  }
}

const inputs = await InputChecks.compile(
  { maxBodyBytes: 1_000 },
  {
    bodies: new BodyChecks(monotonicClock),
    limits: { clientOf: () => "a" },
  },
);
const describedAt = (publicUrl: string) =>
  new JobDescriptions({
    jobs: [],
    seller: sellerOf({ publicUrl }),
    methods: METHODS,
    declares: [() => ({ extensions: { described: { info: {} } } })],
    facilitators: { extensionsOf: () => [] },
    terms: [],
  });

/** Changes the world; `isReload` if a gateway learns of it by a reload. */
interface Step {
  readonly isReload?: boolean;
  change(world: World): unknown;
}

const wait = fc
  .constantFrom(1, 400, 1_000, 5_000, 200_000)
  .map((ms): Step => ({ change: (world) => Object.assign(world, { nowMs: world.nowMs + ms }) }));
const ending = fc.record({
  digest: fc.constantFrom("ab".repeat(32), "cd".repeat(32)),
  lifetimeSecs: fc.constantFrom(5, 20, 100, 4_000),
  isConfidential: fc.boolean(),
});
const price = fc
  .record({
    job: fc.nat(1),
    priceWei: fc.constantFrom(0n, 10n ** 15n, 3n * 10n ** 15n, 2n ** 90n),
    ending: fc.option(ending, { nil: undefined }),
  })
  .map(
    ({ job, priceWei, ending }): Step => ({
      change({ prices, nowMs }) {
        if (ending === undefined) return prices.set(job, { priceWei });
        const { digest, lifetimeSecs, isConfidential } = ending;
        const endSecs = Math.ceil(nowMs / 1000) + lifetimeSecs;
        return prices.set(job, {
          ...{ priceWei, digest, endSecs },
          ...(isConfidential && { confidentiality: "tee" }),
        });
      },
    }),
  );
const rate = fc
  .record({
    symbol: fc.constantFrom("USDC", "EURC", "WETH"),
    rate: fc.option(fc.constantFrom("3200.00", "0.5", "123456.789")),
  })
  .map(
    ({ symbol, rate }): Step => ({
      change({ rates }) {
        if (rate === null) rates.delete(symbol);
        else rates.set(symbol, rate);
      },
    }),
  );
const reload = fc
  .record({
    tokens: fc.subarray([USDC, EURC, WETH], { minLength: 1 }),
    markupBps: fc.constantFrom(0, 200),
    quoteTtlSecs: fc.constantFrom(10, 300),
    publicUrl: fc.constantFrom("https://a.example.com", "https://b.example.com"),
  })
  .map(
    ({ tokens, markupBps, ...rest }): Step => ({
      isReload: true,
      change(world) {
        Object.assign(world, rest, { tokens: tokens.map((token) => ({ ...token, markupBps })) });
      },
    }),
  );
const steps = fc.array(fc.oneof(wait, price, rate, reload), { minLength: 10, maxLength: 20 });

/** Returns the 402 of a gateway that has not answered before. */
function firstAnswer(world: World, job: JobKey): HttpResponse {
  const { nowMs, tokens, quoteTtlSecs, publicUrl } = world;
  const price = world.prices.get(job.jobIndex) as JobPrice;
  const { endSecs = Number.POSITIVE_INFINITY } = price;
  const ttlSecs = Math.min(quoteTtlSecs, secsUntil(endSecs, nowMs));
  const offers = makeOffers({ job, tokens, ttlSecs, ...price }, ratesOf(world));
  const details = { charged: false, retryable: false };
  const description = describedAt(publicUrl).of(job);
  return paymentRequiredResponse(paymentRequired(offers), description, details, METHODS.versions);
}

it("A 402 that is sent again equals the 402 that would be rendered now", async () => {
  let sentAgain = 0;
  await fc.assert(
    fc.asyncProperty(steps, async (steps) => {
      const world: World = {
        nowMs: 1_800_000_000_000,
        publicUrl: "https://a.example.com",
        quoteTtlSecs: 300,
        tokens: [USDC, EURC],
        rates: new Map([["USDC", "3200.00"]]),
        prices: new Map([[0, { priceWei: 10n ** 15n }]]),
      };
      const parts = new Parts(world);
      let route = parts.route();
      const sent = new Set<unknown>();
      for (const step of steps) {
        step.change(world);
        if (step.isReload) route = parts.route();
        for (const jobIndex of [0, 1, 0]) {
          const job = { serviceId: 1n, jobIndex };
          const answer = await route.answer(requestWith([]), job);
          if (answer.status !== 402) continue;
          expect(answer).toEqual(firstAnswer(world, job));
          if (sent.has(answer)) sentAgain += 1;
          sent.add(answer);
        }
      }
    }),
    { numRuns: RUNS },
  );
  expect(sentAgain).toBeGreaterThan(0);
});
