import type { PaymentRequirementsV1 } from "@x402/core/types";
import { extractDiscoveryInfoV1 } from "@x402/extensions/bazaar";
import { expect, it } from "vitest";
import { bazaarExtension } from "../../src/parts/catalogue/bazaar.ts";
import { PERMIT2 } from "../../src/parts/permit2/method.ts";
import { VERSION_1 } from "../../src/parts/version-1/version-1.ts";
import { Methods } from "../../src/x402/methods/methods.ts";
import type { Offer } from "../../src/x402/wire/offer.ts";
import { Versions } from "../../src/x402/wire/version.ts";
import { PERMIT2_USDC, permitFor } from "../parts/permit2/payments.ts";
import { asV1, outcome } from "../parts/version-1/payments.ts";
import { offersOf, signedPayload, USDC } from "../x402/payments.ts";

const methods = new Methods([PERMIT2], new Versions([VERSION_1]));
const nowMs = 1_800_000_000_000;
const validBefore = String(nowMs / 1000 + 300);
const WINDOW = { validAfter: String(nowMs / 1000 - 600), validBefore };

it("A permit of Permit2 is a mismatch in version 1, which has EIP-3009 only, and so is an EIP-3009 payload", async () => {
  const offers = offersOf({ tokens: [PERMIT2_USDC] }) as [Offer];
  const permit = await permitFor(offers[0], { deadline: validBefore });
  for (const payload of [permit, await signedPayload({ authorization: WINDOW })])
    expect(await outcome(asV1(payload), { nowMs, offers, methods })).toBe("payment_mismatch");
});

it("A payment in version 1 takes the offer by EIP-3009, where its token is offered by Permit2 too", async () => {
  const offers = offersOf({ tokens: [PERMIT2_USDC, USDC] });
  const payment = asV1(await signedPayload({ authorization: WINDOW }));
  expect(await outcome(payment, { nowMs, offers, methods })).toBe("USDC by eip3009");
});

it("A job in the catalogue is read by the official library for version 1", () => {
  const [offer] = offersOf() as [Offer];
  const input = {
    contentType: "application/json",
    schema: JSON.stringify({ type: "object" }),
    example: '{"text":"abc"}',
  };
  const extensions = bazaarExtension({ ...offer.job, input }, []);
  const requirements = VERSION_1.requirementsOf(offer, {
    resource: { url: "https://operator.example.com/x402/jobs/1/0", description: "Adds." },
    extensions,
  });
  expect(requirements).toMatchObject({
    description: "Adds.",
    outputSchema: { input: { discoverable: true } },
  });
  expect(extractDiscoveryInfoV1(requirements as PaymentRequirementsV1)).toMatchObject({
    input: { method: "POST", bodyType: "json", body: { text: "abc" } },
  });
});
