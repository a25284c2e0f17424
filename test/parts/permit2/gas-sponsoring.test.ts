import type { PaymentPayload } from "@x402/core/types";
import {
  declareEip2612GasSponsoringExtension,
  declareErc20ApprovalGasSponsoringExtension,
} from "@x402/extensions";
import { describe, expect, it } from "vitest";
import { GAS_SPONSORING } from "../../../src/parts/permit2/gas-sponsoring.ts";
import { JobDescriptions } from "../../../src/x402/jobs/job-descriptions.ts";
import { sellerOf } from "../../../src/x402/jobs/seller.ts";
import { ExtensionEchoes } from "../../../src/x402/wire/extensions.ts";
import { accounts } from "../../helpers/accounts.ts";
import { JOB, offersOf, USDC } from "../../x402/payments.ts";
import { METHODS, PERMIT2_USDC } from "./payments.ts";

describe("Gas sponsoring", () => {
  it("Is declared as by the official library", () => {
    expect(GAS_SPONSORING).toEqual({
      ...declareEip2612GasSponsoringExtension(),
      ...declareErc20ApprovalGasSponsoringExtension(),
    });
  });

  it("Is declared where a facilitator lists it and an offer is paid by Permit2", () => {
    const elsewhere = { ...PERMIT2_USDC, network: "eip155:8453" } as const;
    const descriptions = new JobDescriptions({
      jobs: [],
      seller: sellerOf({ publicUrl: "http://a" }),
      methods: METHODS,
      declares: [],
      facilitators: {
        extensionsOf: (network) =>
          network === "eip155:84532" ? ["bazaar", "eip2612GasSponsoring"] : ["erc20ApprovalGasSponsoring"],
      },
      terms: [],
    });
    const declared = (...tokens: (typeof USDC)[]) =>
      Object.keys(descriptions.withOffers(JOB, offersOf({ tokens })).extensions);
    expect(declared(USDC)).toEqual([]);
    expect(declared(USDC, PERMIT2_USDC)).toEqual(["eip2612GasSponsoring"]);
    expect(declared(elsewhere)).toEqual(["erc20ApprovalGasSponsoring"]);
    expect(declared(elsewhere, PERMIT2_USDC)).toEqual(["eip2612GasSponsoring", "erc20ApprovalGasSponsoring"]);
  });

  it("May be filled in by a payment, which may not change its declaration", () => {
    const echoes = new ExtensionEchoes({
      descriptions: { of: () => ({ extensions: {} }) },
      methods: METHODS,
      clock: () => 0,
    });
    const check = (extensions: object) => () =>
      echoes.check({ x402Version: 2, extensions } as unknown as PaymentPayload, JOB);
    const info = { ...GAS_SPONSORING.eip2612GasSponsoring?.info, from: accounts.payer.address, amount: "1" };
    expect(check({ eip2612GasSponsoring: { info } })).not.toThrow();
    expect(check({ eip2612GasSponsoring: { info: { ...info, version: "2" } } })).toThrow(
      expect.objectContaining({
        details: { reason: "extension_echo_mismatch", extension: "eip2612GasSponsoring" },
      }),
    );
  });
});
