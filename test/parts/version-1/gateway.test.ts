import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from "@x402/core/http";
import { parsePaymentRequired } from "@x402/core/schemas";
import { describe, expect, it } from "vitest";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { base64Json, requestOffer, signV1Payment, signV2Payment } from "../../helpers/clients.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startAnotherGateway, startTestGateway } from "../../x402/gateway-harness.ts";
import { USDC } from "../../x402/payments.ts";
import { asV1 } from "./payments.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startTestGateway({ config: { facilitatorUrl: parts.facilitator.url } }));

describe("A 402", () => {
  it("Parses with the official schemas of both versions", async () => {
    const { status, body, headers } = await gateway.post({});
    expect(status).toBe(402);
    expect(body).toMatchObject({
      x402Version: 1,
      code: "payment_required",
      charged: false,
      retryable: false,
    });
    expect(parsePaymentRequired(body)).toMatchObject({ success: true, data: { x402Version: 1 } });
    const v2 = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
    expect(parsePaymentRequired(v2)).toMatchObject({ success: true, data: { x402Version: 2 } });
  });

  it("Has in its body only the offers on networks that version 1 has a name for", async () => {
    const mainnet = { ...USDC, network: "eip155:1" } as const;
    const other = await startAnotherGateway({ config: { acceptedTokens: [mainnet, USDC] } });
    const { body, headers } = await other.post({});
    expect(body.accepts).toMatchObject([{ network: "base-sepolia" }]);
    const v2 = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
    expect(v2.accepts.map(({ network }) => network)).toEqual(["eip155:1", "eip155:84532"]);
  });
});

describe("A paid request", () => {
  it("Is answered with its settlement in version 1", async () => {
    const { v1 } = await requestOffer(gateway.jobUrl());
    const { headers } = await signV1Payment({ offer: v1, account: accounts.payer });
    const answer = await gateway.post(headers);
    expect([answer.status, answer.body.status]).toEqual([202, "accepted"]);
    const settlement = decodePaymentResponseHeader(answer.headers.get("x-payment-response") ?? "");
    expect(settlement).toMatchObject({ success: true, network: "base-sepolia" });
    expect(answer.headers.has("payment-response")).toBe(false);
    const again = await gateway.post(headers);
    expect(again.headers.get("x-payment-response")).toBe(answer.headers.get("x-payment-response"));
  });

  it("Is answered in version 2 if it holds the payment in both, and refused if they differ", async () => {
    const { v2 } = await requestOffer(gateway.jobUrl());
    const [payment, other] = await Promise.all(
      [1, 2].map(() => signV2Payment({ offer: v2, account: accounts.payer })),
    );
    if (payment === undefined || other === undefined) throw new Error("nothing was signed");
    const refused = await gateway.post({ ...payment.headers, "x-payment": base64Json(asV1(other.payload)) });
    expect([refused.status, refused.body]).toMatchObject([
      400,
      {
        code: "invalid_payment",
        error: "PAYMENT-SIGNATURE and X-PAYMENT hold different payments: send one of them.",
      },
    ]);
    const both = { ...payment.headers, "x-payment": base64Json(asV1(payment.payload)) };
    const answer = await gateway.post(both);
    expect([answer.status, answer.headers.has("payment-response")]).toEqual([202, true]);
    expect(answer.headers.has("x-payment-response")).toBe(false);
  });
});

it("A page may send and read the headers of both versions, in their order", async () => {
  const asked = { method: "OPTIONS", headers: { origin: "https://shop.example" } };
  const preflight = await fetch(gateway.jobUrl(), asked);
  expect(preflight.headers.get("access-control-allow-headers")).toMatch(
    /^Content-Type, Authorization, PAYMENT-SIGNATURE, X-PAYMENT, Prefer,/,
  );
  const { headers } = await gateway.post({});
  expect(headers.get("access-control-expose-headers")).toMatch(
    /^PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, WWW-Authenticate,/,
  );
});
