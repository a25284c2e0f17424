import { describe, expect, it } from "vitest";
import type { MinCharge } from "../../../src/config/config.ts";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { OTHER_USDC, offersOf, USDC } from "../payments.ts";

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

describe("An offer metered", () => {
  const network = OTHER_USDC.network;
  const least = (minCharge?: MinCharge) => {
    const facilitators = new Map([[network, USDC.payTo]]);
    const methods = new Set([OTHER_USDC.transferMethod]);
    const kinds = ["used"] as const;
    const charge = { kinds, methods, runSecs: 180, facilitators, ...(minCharge && { minCharge }) };
    return offersOf({ tokens: [{ ...OTHER_USDC, rpcUrl: "http://node" }], charge })[0]?.charge?.minCharge;
  };

  it.each<[string, MinCharge | undefined, string | undefined]>([
    ["nothing", undefined, undefined],
    ["a share of the ceiling, rounded up", { basisPoints: 3_333 }, "1087892"],
    ["an amount of the price's currency", { unit: "usd", amount: 500_000_000_000_000n }, "1632000"],
    ["at most the ceiling", { unit: "usd", amount: 10n ** 30n }, "3264000"],
  ])("Charges at least %s", (_, minCharge, units) => {
    expect(least(minCharge)).toBe(units);
  });
});
