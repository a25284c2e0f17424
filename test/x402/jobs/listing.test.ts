import { describe, expect, it, onTestFinished } from "vitest";
import type { Job, JobPolicy } from "../../../src/config/config.ts";
import { jobKeyText } from "../../../src/core/job-call.ts";
import { Listing } from "../../../src/x402/jobs/listing.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { JobChargeTerms, JobPolicies } from "../../../src/x402/prices/job-policies.ts";
import { PayableTokens, type PriceSource, priceUnavailable } from "../../../src/x402/prices/price-source.ts";
import { schemeOf } from "../../../src/x402/wire/offer.ts";
import { PUBLIC_URL } from "../gateway-harness.ts";
import { OTHER_METHOD, OTHER_SCHEME, OTHER_USDC, PRICE_WEI, USDC } from "../payments.ts";

const job = (jobIndex: number, more: Partial<Job> = {}): Job => ({ serviceId: 1n, jobIndex, ...more });
const engineJob = (jobIndex: number) => job(jobIndex, { price: "engine" });
const policy = (jobIndex: number, invocationMode: JobPolicy["invocationMode"]): JobPolicy => ({
  serviceId: 1n,
  jobIndex,
  invocationMode,
});

/** Clock, rate and prices of a listing; a test changes them. */
class World {
  nowMs = 1_000_000;
  rate: string | undefined = "3200.00";
  tokens = [USDC];
  /** Address that settles metered payments. */
  facilitator: string | undefined;
  priceOf: PriceSource["priceOf"] = async () => ({ priceWei: PRICE_WEI });
  readonly asked: number[] = [];

  listing(config: { jobs?: Job[]; mapped?: number[]; jobPolicies?: JobPolicy[] }): Listing {
    const { jobs = [], mapped = [], jobPolicies = [] } = config;
    const prices: PriceSource = {
      priceOf: (key) => {
        this.asked.push(key.jobIndex);
        return this.priceOf(key);
      },
    };
    const methods = new Methods([OTHER_METHOD], undefined, undefined, OTHER_SCHEME);
    return new Listing({
      config: {
        jobs,
        jobPricing: new Map(mapped.map((index) => [jobKeyText(1n, index), PRICE_WEI])),
        jobPolicies,
        quoteTtlSecs: 300,
        publicUrl: PUBLIC_URL,
      },
      policies: new JobPolicies({ jobPolicies, defaultInvocationMode: "public_paid" }, prices),
      prices,
      isConfigured: ({ price }) => price !== "engine",
      tokens: new PayableTokens(this.tokens),
      chargeTerms: new JobChargeTerms({
        config: { jobs, acceptedTokens: this.tokens, settleMarginSecs: 60 },
        facilitators: { facilitatorAddressOn: () => this.facilitator },
        methods,
      }),
      terms: [
        {
          accessTo: ({ jobIndex }) =>
            jobIndex === 4 ? { mode: "members", note: "For members." } : undefined,
        },
      ],
      methods,
      rates: { rateOf: () => (this.rate === undefined ? undefined : { ratePerNativeUnit: this.rate }) },
      clock: () => this.nowMs,
    });
  }
}

async function indexes(listing: Listing): Promise<number[]> {
  return (await listing.jobs()).map(({ jobIndex }) => jobIndex);
}

describe("The listing", () => {
  it("Names every priced job whose policy is not disabled, described ones first", async () => {
    const world = new World();
    world.priceOf = async ({ jobIndex }) => (jobIndex === 9 ? undefined : { priceWei: PRICE_WEI });
    const listing = world.listing({
      jobs: [job(3, { name: "summarise" }), job(4)],
      mapped: [0, 1, 4, 9],
      jobPolicies: [policy(1, "disabled"), policy(4, "restricted_paid"), policy(5, "public_paid")],
    });
    expect((await listing.jobs()).map(({ jobIndex, mode, access }) => [jobIndex, mode, access])).toEqual([
      [3, "public_paid", undefined],
      [4, "restricted_paid", { mode: "members", note: "For members." }],
      [0, "public_paid", undefined],
      [5, "public_paid", undefined],
    ]);
  });

  it("Lists a job without a price while its price or every token's rate is not known", async () => {
    const world = new World();
    world.priceOf = async ({ jobIndex }) => {
      if (jobIndex === 1) throw priceUnavailable("the engine is down");
      return { priceWei: PRICE_WEI };
    };
    const listing = world.listing({ jobs: [job(0), engineJob(1)] });
    expect((await listing.jobs()).map(({ price, offers }) => [price?.priceWei, offers.length])).toEqual([
      [PRICE_WEI, 1],
      [undefined, 0],
    ]);
    world.rate = undefined;
    expect((await world.listing({ jobs: [job(0)] }).jobs())[0]).toMatchObject({ offers: [] });
  });

  it("Offers a metered job as its 402 does, once its facilitator is known", async () => {
    const world = new World();
    world.tokens = [USDC, { ...OTHER_USDC, rpcUrl: "http://node" }];
    const listing = world.listing({
      jobs: [job(0), job(1, { charge: ["used"] }), job(2, { charge: ["used", "before"] })],
    });
    const schemes = async () =>
      (await listing.jobs()).map(({ offers }) =>
        offers.map((offer) => `${schemeOf(offer)} ${offer.token.transferMethod}`),
      );
    const fixed = ["exact eip3009", "exact other"];
    expect(await schemes()).toEqual([fixed, [], fixed]);
    world.facilitator = PUBLIC_URL;
    world.nowMs += 6_000;
    expect(await schemes()).toEqual([fixed, ["upto other"], ["exact eip3009", "upto other", "exact other"]]);
  });

  it("Does not wait long for a pricing engine, and calls it about a bounded number of jobs", async () => {
    const world = new World();
    world.priceOf = ({ jobIndex }) =>
      jobIndex === 500 ? Promise.resolve({ priceWei: PRICE_WEI }) : new Promise(() => {});
    const engineJobs = Array.from({ length: 400 }, (_, index) => engineJob(index));
    const jobs = await world.listing({ jobs: [...engineJobs, job(500)] }).jobs();
    expect(jobs.length).toBe(401);
    expect(jobs.filter(({ price }) => price !== undefined).map(({ jobIndex }) => jobIndex)).toEqual([500]);
    expect(world.asked.length).toBeLessThan(50);
  });

  it("Stays the same array until a price or rate changes, and looks again after a few seconds", async () => {
    const world = new World();
    const listing = world.listing({ jobs: [job(0), job(1)] });
    const [first, together] = await Promise.all([listing.jobs(), listing.jobs()]);
    expect(together).toBe(first);
    expect(world.asked).toEqual([0, 1]);
    world.rate = "3300.00";
    expect(await listing.jobs()).toBe(first);
    world.nowMs += 6_000;
    const second = await listing.jobs();
    expect(second[0]?.offers[0]?.amount).not.toBe(first[0]?.offers[0]?.amount);
    world.nowMs += 6_000;
    expect(await listing.jobs()).toBe(second);
    world.priceOf = async ({ jobIndex }) => (jobIndex === 0 ? undefined : { priceWei: PRICE_WEI });
    world.nowMs += 6_000;
    expect(await indexes(listing)).toEqual([1]);
  });

  it("Lets other work go on while a long list is made", async () => {
    const jobs = Array.from({ length: 1_000 }, (_, index) => job(index));
    const listing = new World().listing({ jobs });
    let turns = 0;
    const count = () => {
      turns += 1;
      turn = setImmediate(count);
    };
    let turn = setImmediate(count);
    onTestFinished(() => clearImmediate(turn));
    await listing.jobs();
    expect(turns).toBeGreaterThan(3);
  });

  it("Rejects only the requests that come while a price source fails unexpectedly", async () => {
    const world = new World();
    const works = world.priceOf;
    world.priceOf = () => Promise.reject(new Error("a bug"));
    const listing = world.listing({ jobs: [job(0), engineJob(1), engineJob(2)] });
    await expect(listing.jobs()).rejects.toThrow("a bug");
    world.priceOf = works;
    expect(await indexes(listing)).toEqual([0, 1, 2]);
  });
});
