import { describe, expect, it, test } from "vitest";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { AMOUNT, OTHER_SCHEME, OTHER_USDC, offersOf, PRICE_WEI, USDC } from "../payments.ts";

const offerOn = (network: `eip155:${number}`) => offersOf({ tokens: [{ ...USDC, network }] })[0] as Offer;

describe("Payment requirements", () => {
  it("Have exactly the protocol's fields", () => {
    expect(toRequirements(offerOn("eip155:84532"))).toEqual({
      scheme: "exact",
      network: "eip155:84532",
      amount: "3264000",
      asset: USDC.asset,
      payTo: USDC.payTo,
      maxTimeoutSeconds: 300,
      extra: { name: "USDC", version: "2" },
    });
  });

  it("A method other than EIP-3009 is named in extra", () => {
    const { eip3009: _, ...withoutDomain } = OTHER_USDC;
    const [offer, plain] = offersOf({ tokens: [OTHER_USDC, withoutDomain] }) as [Offer, Offer];
    expect(toRequirements(offer).extra).toEqual({ name: "USDC", version: "2", assetTransferMethod: "other" });
    expect(toRequirements(plain).extra).toEqual({ assetTransferMethod: "other" });
  });

  it("An offer contains no RPC address, which may contain a key", () => {
    const token = { ...USDC, rpcUrl: "https://rpc.example.com/key" };
    expect(
      JSON.stringify(offersOf({ tokens: [token] }), (_, v) => (typeof v === "bigint" ? `${v}` : v)),
    ).not.toContain("rpc");
  });
});

test("An offer of a ceiling names the only account that settles, and the least charge of its job", () => {
  const charge = {
    kinds: ["used"],
    methods: new Set([OTHER_USDC.transferMethod]),
    runSecs: 180,
    scheme: OTHER_SCHEME,
    facilitatorAddresses: new Map([[OTHER_USDC.network, USDC.payTo]]),
    leastCharge: ({ amount, priceWei }: Pick<Offer, "amount" | "priceWei">) => `${amount} of ${priceWei}`,
  };
  const [offer, ...others] = offersOf({ tokens: [{ ...OTHER_USDC, rpcUrl: "http://node" }], charge });
  expect(others).toEqual([]);
  expect(offer?.charge?.minCharge).toBe(`${AMOUNT} of ${PRICE_WEI}`);
  expect(toRequirements(offer as Offer)).toMatchObject({
    scheme: "upto",
    maxTimeoutSeconds: 480,
    extra: { assetTransferMethod: "other", facilitatorAddress: USDC.payTo },
  });
});
