import { decodePaymentRequiredHeader } from "@x402/core/http";
import { describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { base64Json } from "../helpers/clients.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "rpc_url" }));

/** The configured `public_url`. */
const PUBLIC_URL = "http://127.0.0.1:8402";
const FORGED = {
  host: "evil.example.com",
  "x-forwarded-host": "evil.example.com",
  "x-forwarded-proto": "https",
  "x-forwarded-port": "444",
  "x-forwarded-prefix": "/evil",
  "x-forwarded-for": "203.0.113.1",
  "x-original-url": "/evil",
  "x-rewrite-url": "/x402/jobs/1/1",
  forwarded: "host=evil.example.com;proto=https",
};

describe("Trust", () => {
  it("forged Host and X-Forwarded-* → never in resource.url or x402_endpoint", async () => {
    const url = gateway.jobgate.x402Url;
    const offer = await rawRequest(url, "POST /x402/jobs/1/0", FORGED, "work");
    expect(offer.status).toBe(402);
    const v2 = decodePaymentRequiredHeader(offer.headers["payment-required"] ?? "");
    expect(v2.resource).toMatchObject({ url: `${PUBLIC_URL}/x402/jobs/1/0` });
    expect(JSON.parse(offer.body).accepts[0].resource).toBe(`${PUBLIC_URL}/x402/jobs/1/0`);

    const price = await rawRequest(url, "GET /x402/jobs/1/0/price", FORGED);
    expect(JSON.parse(price.body).settlement_options[0].x402_endpoint).toBe(`${PUBLIC_URL}/x402/jobs/1/0`);
    for (const { headers, body } of [offer, price])
      expect(`${JSON.stringify([headers, v2])}${body}`).not.toContain("evil");
  });

  it("Forged X-PAYMENT-RESPONSE in a request → ignored", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.send({ headers: forgedResponse() });
    expect(answer).toMatchObject({ status: 402, code: "payment_required", charged: false, retryable: false });
    expect(answer.settlement).toBeUndefined();
    await expectChanges({});
  });

  it("Forged X-PAYMENT-RESPONSE and metadata headers beside a payment → the runner gets the real settlement's metadata", async () => {
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const headers = {
      ...forgedResponse(),
      "X-X402-ORIGIN": "forged",
      "X-X402-QUOTE-DIGEST": "0".repeat(64),
      "X-X402-PAYMENT-NETWORK": "eip155:1",
      "X-X402-PAYMENT-TOKEN": "FAKE",
      "X-X402-PAYMENT-SCHEME": "upto",
      "X-X402-PAYMENT-AMOUNT": "1",
      "X-X402-PAYER": accounts.stranger.address,
      "X-CHAIN-SERVICE-ID": "99",
      "X-CHAIN-CALL-ID": "99",
      "X-CHAIN-CALLER": accounts.stranger.address,
      "X-WEBHOOK-ORIGIN": "webhook",
    };
    const answer = await gateway.send(payment, { headers, body: "trusted" });
    expect(answer).toMatchObject({ status: 202, settlement: { success: true, network: "eip155:84532" } });
    expect(answer.settlement?.payer).toBe(accounts.payer.address.toLowerCase());
    expect(answer.settlement?.transaction).not.toBe(FORGED_TRANSACTION);

    const [call] = await gateway.waitForJobs("trusted");
    expect(call?.metadata).toEqual({
      "X-X402-ORIGIN": "x402",
      "X-X402-QUOTE-DIGEST": answer.receipt,
      "X-X402-PAYMENT-NETWORK": "eip155:84532",
      "X-X402-PAYMENT-TOKEN": "USDC",
      "X-X402-PAYMENT-SCHEME": "exact",
      "X-X402-PAYMENT-AMOUNT": "3264000",
      "X-X402-PAYER": accounts.payer.address.toLowerCase(),
      "X-CHAIN-SERVICE-ID": "1",
      "X-CHAIN-CALL-ID": String(answer.call_id),
      "X-HTTP-CONTENT-TYPE": "text/plain;charset=UTF-8",
    });
    expect(call).toMatchObject({ callId: BigInt(answer.call_id ?? 0), jobId: 0n, serviceId: 1n });
    await expectChanges(ONE_PAID_JOB);
  });
});

const FORGED_TRANSACTION = `0x${"ab".repeat(32)}`;

function forgedResponse(): Readonly<Record<string, string>> {
  const settlement = { success: true, transaction: FORGED_TRANSACTION, network: "eip155:1" };
  const forged = base64Json({ ...settlement, payer: accounts.stranger.address });
  return { "x-payment-response": forged, "payment-response": forged, "payment-required": forged };
}
