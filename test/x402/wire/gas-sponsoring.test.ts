import {
  declareEip2612GasSponsoringExtension,
  declareErc20ApprovalGasSponsoringExtension,
} from "@x402/extensions";
import { describe, expect, it } from "vitest";
import { declareGasSponsoring, GAS_SPONSORING } from "../../../src/x402/wire/gas-sponsoring.ts";
import { offersOf, PERMIT2_USDC, USDC } from "../payments.ts";

describe("Gas sponsoring in a 402", () => {
  it("Is declared as by the official library", () => {
    expect(GAS_SPONSORING).toEqual({
      ...declareEip2612GasSponsoringExtension(),
      ...declareErc20ApprovalGasSponsoringExtension(),
    });
  });

  it("Is declared where a facilitator lists it and an offer is paid by Permit2", () => {
    const elsewhere = { ...PERMIT2_USDC, network: "eip155:8453" } as const;
    const extensionsOf = (network: string) =>
      network === "eip155:84532" ? ["bazaar", "eip2612GasSponsoring"] : ["erc20ApprovalGasSponsoring"];
    const declared = (...tokens: (typeof USDC)[]) =>
      Object.keys(declareGasSponsoring(offersOf({ tokens }), extensionsOf));
    expect(declared(USDC)).toEqual([]);
    expect(declared(USDC, PERMIT2_USDC)).toEqual(["eip2612GasSponsoring"]);
    expect(declared(elsewhere)).toEqual(["erc20ApprovalGasSponsoring"]);
    expect(declared(elsewhere, PERMIT2_USDC)).toEqual(["eip2612GasSponsoring", "erc20ApprovalGasSponsoring"]);
  });
});
