import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from "@x402/core/http";
import { parsePaymentRequired } from "@x402/core/schemas";
import type { PaymentPayload } from "@x402/core/types";
import { describe, expect, it, onTestFinished } from "vitest";
import { GatewayError, UnknownOutcomeError } from "../../../src/core/errors.ts";
import type { RouteTable } from "../../../src/http/routes.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../../helpers/clients.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { newServer } from "../../http/server-harness.ts";
import { MAX_BODY, PUBLIC_URL, startAnotherGateway, startTestGateway } from "../gateway-harness.ts";
import { JOB, METHODS, USDC } from "../payments.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startTestGateway({ config: { facilitatorUrl: parts.facilitator.url } }));

describe("A 402", () => {
  it("Parses with the official schema", async () => {
    const { status, body, headers } = await gateway.post({});
    expect(status).toBe(402);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(body).toMatchObject({ code: "payment_required", charged: false, retryable: false });
    const v2 = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
    expect(parsePaymentRequired(v2)).toMatchObject({ success: true, data: { x402Version: 2 } });
    expect(v2.resource).toEqual({
      url: `${PUBLIC_URL}/x402/jobs/1/0`,
      description: "Job 0 of service 1",
      mimeType: "application/json",
      serviceName: "operator.example.com",
      tags: [],
    });
  });

  it("Has the object of its header as its body if no other version has a name for the network", async () => {
    const mainnet = { ...USDC, network: "eip155:1" } as const;
    const other = await startAnotherGateway({ config: { acceptedTokens: [mainnet] } });
    const { body, headers } = await other.post({});
    expect(parsePaymentRequired(body)).toMatchObject({ success: true, data: { x402Version: 2 } });
    expect(body).toMatchObject(decodePaymentRequiredHeader(headers.get("payment-required") ?? ""));
  });

  it("Has the offers in another version in its body, and the offers in the current version in its header", async () => {
    const mainnet = { ...USDC, network: "eip155:1" } as const;
    const config = { acceptedTokens: [mainnet, USDC] };
    const other = await startAnotherGateway({ config, methods: METHODS });
    const { body, headers } = await other.post({});
    expect(body).toMatchObject({ x402Version: 1, accepts: [{ network: "other-84532" }] });
    const { accepts } = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
    expect(accepts.map(({ network }) => network)).toEqual(["eip155:1", "eip155:84532"]);
    expect(headers.get("access-control-expose-headers")).toContain("PAYMENT-RESPONSE, X-OTHER-RESPONSE");
  });

  it("Has fresh offers even when it refuses a payment", async () => {
    const { v2 } = await requestOffer(gateway.jobUrl());
    const short = await signV2Payment({ offer: v2, account: accounts.payer, authorization: { value: "1" } });
    const { status, body, headers } = await gateway.post(short.headers);
    expect([status, body.code, body.charged]).toEqual([402, "payment_mismatch", false]);
    expect(decodePaymentRequiredHeader(headers.get("payment-required") ?? "").accepts).toEqual(v2.accepts);
  });
});

describe("A paid request", () => {
  it("Is refused if it changes a declared extension, with a fresh offer and without a charge", async () => {
    const declares = () => ({ colour: { info: { name: "red" } } });
    const shop = await startAnotherGateway({
      config: { facilitatorUrl: parts.facilitator.url },
      parts: async () => [{ open: () => ({ declares }) }],
    });
    const { v2 } = await requestOffer(shop.jobUrl());
    const edit = (payload: PaymentPayload) => ({
      ...payload,
      extensions: { colour: { info: { name: "blue" } } },
    });
    const { headers } = await signV2Payment({ offer: v2, account: accounts.payer, edit });
    const { status, body, headers: answered } = await shop.post(headers);
    expect([status, body]).toMatchObject([
      402,
      { code: "payment_mismatch", reason: "extension_echo_mismatch", extension: "colour", charged: false },
    ]);
    expect(answered.has("payment-required")).toBe(true);
  });

  it("Is answered 202 with its settlement", async () => {
    const { v2 } = await requestOffer(gateway.jobUrl());
    const accepted = {
      status: "accepted",
      receipt: expect.stringMatching(/^[0-9a-f]{64}$/),
      service_id: 1,
      job_index: 0,
      call_id: expect.any(Number),
      access_token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      links: expect.anything(),
    };
    const answer = await gateway.post((await signV2Payment({ offer: v2, account: accounts.payer })).headers);
    expect([answer.status, answer.body]).toEqual([202, accepted]);
    const settlement = decodePaymentResponseHeader(answer.headers.get("payment-response") ?? "");
    expect(settlement).toMatchObject({ success: true, network: "eip155:84532" });
  });

  it("Gets the path of its call, also behind a proxy with a path", async () => {
    const answer = await gateway.post((await gateway.sign()).headers);
    const self = `/x402/calls/${answer.body.call_id}`;
    expect(answer.headers.get("location")).toBe(self);
    expect(answer.body.links).toEqual({ self, result: `${self}/result`, events: `${self}/events` });

    const publicUrl = "https://operator.example.com/jobs";
    const below = await startAnotherGateway({
      config: { facilitatorUrl: parts.facilitator.url, publicUrl },
    });
    const { headers, body } = await below.post((await below.sign()).headers);
    expect(headers.get("location")).toBe(`/jobs/x402/calls/${body.call_id}`);
  });

  it("Is refused in order: no job, disabled, body too large, malformed payment, no payment", async () => {
    const tooLarge = { body: "x".repeat(MAX_BODY + 1) };
    const garbage = { "payment-signature": "x" };
    expect(await gateway.post(garbage, { job: 9, ...tooLarge })).toMatchObject({
      status: 404,
      body: { code: "job_not_found", charged: false, service_id: 1, job_index: 9 },
    });
    expect(await gateway.post(garbage, { job: 2, ...tooLarge })).toMatchObject({
      status: 403,
      body: { code: "x402_disabled", charged: false, service_id: 1, job_index: 2 },
    });
    expect(await gateway.post(garbage, tooLarge)).toMatchObject({
      status: 413,
      body: { code: "body_too_large", charged: false, retryable: false },
    });
    expect(await gateway.post(garbage)).toMatchObject({
      status: 400,
      body: { code: "invalid_payment", charged: false },
    });
    const fits = { body: "x".repeat(MAX_BODY) };
    expect(await gateway.post({}, fits)).toMatchObject({ status: 402, body: { code: "payment_required" } });
  });

  it("Gets its first answer again after a reload to a schema that its body does not match", async () => {
    const sold = await startAnotherGateway({ config: { facilitatorUrl: parts.facilitator.url } });
    const payment = await sold.sign();
    const first = await sold.post(payment.headers, { body: '"a"' });
    const unused = await sold.sign();
    const input = { contentType: "application/json", schema: '{"type":"object"}' };
    await sold.reload({ facilitatorUrl: parts.facilitator.url, jobs: [{ ...JOB, input }] });

    const again = await sold.post(payment.headers, { body: '"a"' });
    expect([again.status, again.body]).toEqual([202, first.body]);
    const refused = { status: 422, body: { code: "invalid_input", charged: false } };
    expect(await sold.post(payment.headers, { body: '"b"' })).toMatchObject({
      status: 409,
      body: { code: "payment_replay" },
    });
    expect(await sold.post(unused.headers, { body: '"a"' })).toMatchObject(refused);
    expect(await sold.post({ "payment-signature": "x" }, { body: '"a"' })).toMatchObject(refused);
  });

  it.each([
    ["500 after an unexpected error", 500, "internal_error", new TypeError("a bug")],
    ["503 after a change of unknown outcome", 503, "store_unavailable", new UnknownOutcomeError("a bug")],
  ])("Gets %s, without a claim that nothing was charged, and the log has it once", async (...row) => {
    const [, status, code, error] = row;
    const broken = await startAnotherGateway();
    const payment = await broken.sign();
    broken.store.findPaymentByFingerprint = () => Promise.reject(error);
    const answer = await broken.post(payment.headers);
    const told = { error: expect.not.stringContaining("a bug"), code, charged: "unknown", retryable: true };
    expect([answer.status, answer.body]).toEqual([status, told]);
    const logged = {
      request: expect.stringMatching(/^r[0-9a-f]{10}-\d+$/),
      job: "1/0",
      code,
      err: { message: "a bug" },
    };
    expect(broken.errors).toMatchObject([{ msg: "request failed unexpectedly", ...logged }]);
  });

  it("Gets 503 while the store cannot look for an earlier use of the payment, without a claim that nothing was charged", async () => {
    const cut = await startAnotherGateway();
    const payment = await cut.sign();
    cut.store.findPaymentByFingerprint = () =>
      Promise.reject(new GatewayError("store_unavailable", "The store lookup failed."));
    const { status, body } = await cut.post(payment.headers);
    expect([status, body]).toMatchObject([
      503,
      { code: "store_unavailable", charged: "unknown", retryable: true },
    ]);
  });
});

it("A payment that is sent again while the gateway stops is not said to have charged nothing", async () => {
  const server = newServer();
  const others: RouteTable = () => undefined;
  await server.mount(others);
  onTestFinished(() => server.unmount(others));
  const stopping = await startAnotherGateway({ server, config: { facilitatorUrl: parts.facilitator.url } });
  const { headers } = await stopping.sign();
  expect((await stopping.post(headers)).status).toBe(202);
  await stopping.gateway.stop();
  const refusal = { code: "shutting_down", retryable: true };
  expect(await stopping.post(headers)).toMatchObject({
    status: 503,
    body: { ...refusal, charged: "unknown" },
  });
  expect(await stopping.post({})).toMatchObject({ status: 503, body: { ...refusal, charged: false } });
});
