import { createHash, createHmac } from "node:crypto";
import { expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { v2PaymentHeaders } from "../helpers/clients.ts";
import {
  credentialHeaders,
  type MppChallenge,
  readChallenges,
  requestChallenges,
  signChallenge,
} from "../helpers/mpp.ts";
import { soldByMpp } from "../helpers/protocol-tables.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startAnotherGateway } from "../x402/gateway-harness.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { MPP_KEY } from "./paid-config.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "no rpc_url" }));
const account = accounts.payer;

const challengeFor = async (body?: string, url = gateway.urlOf()) =>
  (await requestChallenges(url, body))[0] as MppChallenge;
const counters = async () =>
  (
    (await (await fetch(`${gateway.jobgate.x402Url}/x402/stats`)).json()) as {
      counters: Record<string, number>;
    }
  ).counters;

it("The 402 of the paid route holds a challenge that is bound to the body by HMAC, beside the x402 offers", async () => {
  const response = await fetch(gateway.urlOf(), { method: "POST", body: "work" });
  expect([response.status, response.headers.has("payment-required")]).toEqual([402, true]);
  const [challenge, ...more] = readChallenges(response.headers.get("www-authenticate") ?? "");
  expect(more).toEqual([]);
  const { id, realm, method, intent, request, expires, digest, opaque } = challenge as MppChallenge;
  expect({ realm, method, intent, digest }).toEqual({
    realm: "jobgate.example",
    method: "evm",
    intent: "charge",
    digest: `sha-256=:${createHash("sha256").update("work").digest("base64")}:`,
  });
  expect(JSON.parse(Buffer.from(request, "base64url").toString())).toEqual({
    amount: String(AMOUNT),
    currency: parts.usdc.address,
    recipient: accounts.payTo.address,
    methodDetails: { chainId: parts.anvil.chainId, credentialTypes: ["authorization"], decimals: 6 },
  });
  const slots = [realm, method, intent, request, expires, digest, opaque].join("|");
  expect(id).toBe(createHmac("sha256", MPP_KEY).update(slots).digest("base64url"));
});

it("A payment for one body is refused with another, before the facilitator hears of it", async () => {
  const payment = await signChallenge({ account, challenge: await challengeFor("this body") });
  const expectChanges = await watchLedger(parts, gateway);
  const response = await fetch(gateway.urlOf(), {
    method: "POST",
    body: "that body",
    headers: payment.headers,
  });
  expect([response.status, response.headers.get("content-type")]).toEqual([402, "application/problem+json"]);
  expect(await response.json()).toMatchObject({
    type: "https://paymentauth.org/problems/invalid-challenge",
    status: 402,
    code: "payment_mismatch",
    charged: false,
  });
  expect(response.headers.has("payment-receipt")).toBe(false);
  expect(readChallenges(response.headers.get("www-authenticate") ?? "")).toHaveLength(1);
  await expectChanges({});
  expect(await gateway.send(payment, { body: "this body" })).toMatchObject({ status: 202 });
  await gateway.waitForJobs("this body");
});

it("One authorization shown five times over each of three protocols at once buys one job, and each answer has its own protocol's receipt", async () => {
  for (const protocol of ["evm", "blueprintevm"] as const) {
    const body = `three protocols ${protocol}`;
    const { sign, send } = gateway.at(protocol);
    const payment = await sign({ body });
    const asX402 = { headers: v2PaymentHeaders(payment.payload) };
    const show = () => [
      gateway.send(asX402, { body }),
      send(payment, { body }),
      gateway.at("mcp").send(asX402, { body }),
    ];
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all(Array.from({ length: 5 }, show).flat());
    const [first, second] = answers;
    expect(first).toMatchObject({ status: 202, settlement: { success: true } });
    const { call_id, access_token, receipt } = first as NonNullable<typeof first>;
    const reference = first?.settlement?.transaction;
    const paymentReceipt = { status: "success", method: protocol, timestamp: expect.any(String), reference };
    expect(second).toEqual({ status: 202, call_id, access_token, receipt, paymentReceipt });
    for (const [i, answer] of answers.entries()) expect(answer).toEqual(i % 3 === 1 ? second : first);
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  }
});

it("Payments under one Idempotency-Key are one purchase, and another body under it is a conflict", async () => {
  for (const protocol of ["evm", "blueprintevm"] as const) {
    const body = `one key ${protocol}`;
    const { sign, send } = gateway.at(protocol);
    const headers = { "idempotency-key": `key-${protocol}` };
    const [payment, again, conflicting] = await Promise.all([sign(), sign(), sign()]);
    const expectChanges = await watchLedger(parts, gateway);
    const first = await send(payment, { body, headers });
    expect(first).toMatchObject({ status: 202 });
    expect(again.signed.authorization.nonce).not.toBe(payment.signed.authorization.nonce);
    expect(await send(again, { body, headers })).toEqual(first);
    expect(await send(conflicting, { body: "other", headers })).toMatchObject({
      status: 409,
      code: "payment_identifier_conflict",
    });
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  }
});

it("An Idempotency-Key that is too long, empty, sent twice or not visible ASCII is refused before money", async () => {
  const { headers } = await gateway.at("evm").sign();
  const expectChanges = await watchLedger(parts, gateway);
  const path = "POST /x402/jobs/1/0";
  for (const key of [
    { "Idempotency-Key": "k".repeat(256) },
    { "Idempotency-Key": "" },
    { "Idempotency-Key": "a b" },
    { "Idempotency-Key": "\u00e4" },
    { "Idempotency-Key": "a", "idempotency-key": "a" },
  ]) {
    const { status, body } = await rawRequest(gateway.jobgate.x402Url, path, { ...headers, ...key }, "work");
    expect([key, status, JSON.parse(body).code]).toEqual([key, 400, "invalid_payment"]);
  }
  await expectChanges({});
});

it("A fresh challenge that a malformed credential was answered with can be paid", async () => {
  const response = await fetch(gateway.urlOf(), {
    method: "POST",
    headers: { authorization: "Payment e30" },
    body: "after garbage",
  });
  const [challenge] = readChallenges(response.headers.get("www-authenticate") ?? "");
  expect([response.status, response.headers.has("payment-receipt")]).toEqual([402, false]);
  const payment = await signChallenge({ account, challenge: challenge as MppChallenge });
  expect(await gateway.send(payment, { body: "after garbage" })).toMatchObject({ status: 202 });
});

it("A dry run with a malformed credential is answered with a fresh challenge that can be paid", async () => {
  const response = await fetch(`${gateway.urlOf()}/auth-dry-run`, {
    method: "POST",
    headers: { authorization: "Payment e30" },
    body: "dry garbage",
  });
  expect(response.status).toBe(402);
  expect(await response.json()).toMatchObject({ allowed: false, code: "malformed_credential" });
  const [challenge] = readChallenges(response.headers.get("www-authenticate") ?? "");
  const payment = await signChallenge({ account, challenge: challenge as MppChallenge });
  expect(await gateway.send(payment, { body: "dry garbage" })).toMatchObject({ status: 202 });
});

it("A request with payments of both protocols is refused", async () => {
  const [payment, other] = await Promise.all([gateway.at("evm").sign(), gateway.sign()]);
  const answer = await gateway.send({ headers: { ...payment.headers, ...other.headers } });
  expect(answer).toMatchObject({ status: 400, code: "invalid_payment", charged: false });
});

it("Accept-Payment without evm/charge leaves the challenge out", async () => {
  const challengesWith = async (accepted: string) =>
    (await fetch(gateway.urlOf(), { method: "POST", headers: { "accept-payment": accepted } })).headers.has(
      "www-authenticate",
    );
  const asked = ["tempo/*", "evm/charge;q=0", "tempo/*, evm/*;q=0.5", "*/*"];
  expect(await Promise.all(asked.map(challengesWith))).toEqual([false, false, true, true]);
});

it("The price at /mpp names that route", async () => {
  const response = await fetch(`${gateway.at("blueprintevm").urlOf()}/price`);
  expect(await response.json()).toMatchObject({
    service_id: 1,
    job_index: 0,
    settlement_options: [
      { protocol: "mpp", amount: String(AMOUNT), x402_endpoint: "http://127.0.0.1:8402/mpp/jobs/1/0" },
    ],
  });
});

it("Stats count challenges, accepted payments and refused credentials", async () => {
  const before = await counters();
  const { sign, send } = gateway.at("evm");
  const payment = await sign();
  await send(payment, { body: "counted" });
  await send(payment, { body: "counted" });
  await send({ headers: credentialHeaders({}) });
  const after = await counters();
  const added = ["mpp_challenge_issued", "mpp_accepted", "mpp_verification_failed"].map(
    (name) => (after[name] ?? 0) - (before[name] ?? 0),
  );
  // The offer for x402 in sign() holds a challenge too, and so does the answer to the refused credential.
  expect(added).toEqual([3, 1, 1]);
  await gateway.waitForJobs("counted");
});

it("A challenge made with a rotated key stays good, and a challenge with a foreign key never is", async () => {
  const mpp = (...secretKeys: string[]) => ({ parts: soldByMpp({ secretKeys }) });
  const shop = await startAnotherGateway({ config: mpp("a", "b") });
  const pay = async (challenge: MppChallenge) => {
    const domain = { name: "USDC", version: "2" };
    const { headers } = await signChallenge({ account, challenge, domain });
    return (await shop.post(headers)).body.code;
  };
  const challenge = await challengeFor("work", shop.jobUrl());
  // Nothing listens where the facilitator should be, which is asked only if the challenge is good.
  expect(await pay(challenge)).toBe("facilitator_unavailable");
  await shop.reload(mpp("c"));
  expect(await pay(challenge)).toBe("facilitator_unavailable");
  expect(await pay({ ...challenge, id: createHmac("sha256", "d").update("x").digest("base64url") })).toBe(
    "payment_mismatch",
  );
  await shop.reload({});
  expect((await fetch(`${shop.url}/mpp/jobs/1/0`)).status).toBe(404);
  expect((await fetch(`${shop.url}/mpp/jobs/1/0/price`)).status).toBe(404);
  expect((await fetch(shop.jobUrl(), { method: "POST" })).headers.has("www-authenticate")).toBe(false);
  expect(await pay(challenge)).toBe("payment_required");
});
