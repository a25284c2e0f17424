import { describe, expect, it } from "vitest";
import { VERSION_1 } from "../../../src/parts/version-1/version-1.ts";
import type { Offer } from "../../../src/x402/wire/offer.ts";
import { EURC, OTHER_USDC, offersOf, read, signedPayload, USDC } from "../../x402/payments.ts";
import { asV1, HEADER, METHODS, outcome } from "./payments.ts";

const NOW_SECS = 1_800_000_000;
const nowMs = NOW_SECS * 1000;
/** Time window that is open at {@link NOW_SECS}. */
const WINDOW = { validAfter: String(NOW_SECS - 600), validBefore: String(NOW_SECS + 300) };
const URL = "https://operator.example.com/x402/jobs/1/0";
const JOB = { resource: { url: URL, description: "Adds numbers.", mimeType: "text/plain" }, extensions: {} };

const offerOn = (network: `eip155:${number}`) => offersOf({ tokens: [{ ...USDC, network }] })[0] as Offer;
const signed = (offer?: Offer) => signedPayload({ authorization: WINDOW, ...(offer && { offer }) });

describe("Requirements", () => {
  it("Have their own network name, amount field, absolute resource and description", () => {
    const requirements = VERSION_1.requirementsOf(offerOn("eip155:84532"), JOB);
    expect(requirements).toEqual({
      scheme: "exact",
      network: "base-sepolia",
      maxAmountRequired: "3264000",
      resource: URL,
      description: "Adds numbers.",
      mimeType: "text/plain",
      outputSchema: {},
      asset: USDC.asset,
      payTo: USDC.payTo,
      maxTimeoutSeconds: 300,
      extra: { name: "USDC", version: "2" },
    });
    expect(VERSION_1.isRequirements(requirements)).toBe(true);
    expect(VERSION_1.isRequirements(METHODS.versions.current.requirementsOf(offerOn("eip155:1"), JOB))).toBe(
      false,
    );
  });

  it("Do not exist for another method than EIP-3009", () => {
    const [offer] = offersOf({ tokens: [OTHER_USDC] }) as [Offer];
    expect(VERSION_1.requirementsOf(offer, JOB)).toBeUndefined();
  });

  it.each<[`eip155:${number}`, string | undefined]>([
    ["eip155:8453", "base"],
    ["eip155:43114", "avalanche"],
    ["eip155:137", "polygon"],
    ["eip155:1", undefined],
    ["eip155:42161", undefined],
    ["eip155:31337", undefined],
  ])("Have only networks that the version's client knows: %s is %s", (network, name) => {
    expect(VERSION_1.requirementsOf(offerOn(network), JOB)?.network).toBe(name);
    if (name !== undefined) expect(METHODS.versions.networkOf(name)).toBe(network);
  });
});

describe("A payment", () => {
  it("Names its scheme and a network by the name of the version", async () => {
    const payment = asV1(await signed());
    expect(read(payment, HEADER, METHODS)).toMatchObject({ scheme: "exact", network: "base-sepolia" });
    expect(await outcome(payment, { nowMs })).toBe("USDC by eip3009");
    for (const changes of [{ network: "base" }, { network: "eip155:84532" }, { scheme: "upto" }])
      expect(await outcome({ ...payment, ...changes }, { nowMs })).toBe("payment_mismatch");
  });

  it("Is a mismatch for an offer by another method than EIP-3009", async () => {
    const offers = offersOf({ tokens: [OTHER_USDC] });
    const payment = asV1(await signed(offers[0]));
    expect(await outcome(payment, { nowMs, offers })).toBe("payment_mismatch");
  });

  it("Names no token: the signature decides, in either order of the offers", async () => {
    const offers = offersOf({ tokens: [USDC, EURC] });
    for (const offer of offers)
      for (const listed of [offers, [...offers].reverse()])
        expect(await outcome(asV1(await signed(offer)), { nowMs, offers: listed })).toBe(
          `${offer.token.symbol} by eip3009`,
        );
  });

  it("Is for a facilitator what the current version says in other fields", async () => {
    const [offer] = offersOf() as [Offer];
    const payload = await signed();
    const requirements = VERSION_1.requirementsOf(offer, JOB);
    if (requirements === undefined) throw new Error("the offer is not in version 1");
    const { accepted } = payload;
    expect(VERSION_1.toCurrent({ payload: asV1(payload), requirements })).toEqual({
      payload: { x402Version: 2, accepted, payload: payload.payload },
      requirements: accepted,
    });
    const elsewhere = { ...asV1(payload), network: "ethereum" };
    expect(VERSION_1.toCurrent({ payload: elsewhere, requirements })).toBeUndefined();
  });
});
