import type { PaymentPayload } from "@x402/core/types";
import { generatePaymentId } from "@x402/extensions/payment-identifier";
import { afterEach, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { base64Json, requestOffer, signV1Payment, withIdentifier } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { deployWallet } from "../helpers/wallets.ts";
import { ACCEPTED, FAILED, UNDECIDED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    periods: { confirmationTimeoutMs: 1_000, secondLookAfterMs: 50, roundMs: 50, firstDelayMs: 50 },
    edit: (config) => `${config}\n[[jobs]]\njob_index = 1\nrequire_payment_identifier = true\n`,
  }),
);
afterEach(() => gateway.facilitatorProxy.clear());

const CONFLICT = { status: 409, code: "payment_identifier_conflict", charged: false, retryable: false };

/** Signs a new payment under an identifier. */
const sign = (id: string, options: Parameters<typeof gateway.sign>[0] = {}): Promise<Payment> =>
  gateway.sign({ edit: (payload) => withIdentifier(payload, id), ...options });

describe("A new payment under the identifier of an earlier one", () => {
  it("Gets the first outcome and is not used, whatever it pays and when, also after a restart", async () => {
    const id = generatePaymentId();
    const body = "the same purchase";
    const expectChanges = await watchLedger(parts, gateway);
    const first = await gateway.send(await sign(id), { body });
    expect(first).toMatchObject(ACCEPTED);

    const expired = { validAfter: "0", validBefore: "1" };
    const again = [
      await sign(id),
      await sign(id, { authorization: { value: "1" } }),
      await sign(id, { authorization: expired }),
    ];
    for (const payment of again) expect(await gateway.send(payment, { body })).toEqual(first);
    await gateway.restart();
    for (const payment of again) expect(await gateway.send(payment, { body })).toEqual(first);

    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
    const { payer } = accounts;
    for (const { signed } of again)
      expect(await parts.usdc.authorizationState(payer.address, signed.authorization.nonce)).toBe(false);
  });

  it("Is refused with 409 for another body or job, and the first payment keeps its outcome", async () => {
    const id = generatePaymentId();
    const body = "bound to its identifier";
    const expectChanges = await watchLedger(parts, gateway);
    const payment = await sign(id);
    const first = await gateway.send(payment, { body });
    expect(await gateway.send(await sign(id), { body: "another body" })).toEqual(CONFLICT);
    expect(await gateway.send(await sign(id), { body, job: 1 })).toEqual(CONFLICT);
    // Unsigned: the very same payment has its own outcome, whatever identifier it carries.
    const renamed = base64Json(withIdentifier(payment.payload, generatePaymentId()));
    expect(await gateway.send({ headers: { "payment-signature": renamed } }, { body })).toEqual(first);
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Is another purchase for another payer", async () => {
    const id = generatePaymentId();
    const body = "an identifier that two chose";
    const [one, other] = await Promise.all([sign(id), sign(id, { account: accounts.otherPayer })]);
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all([gateway.send(one, { body }), gateway.send(other, { body })]);
    expect(answers).toMatchObject([ACCEPTED, ACCEPTED]);
    expect(answers[0]?.call_id).not.toBe(answers[1]?.call_id);
    await expectChanges({
      verifyCalls: 2,
      settleCalls: 2,
      received: 2n * AMOUNT,
      jobs: 2,
      payments: { settled: 2 },
    });
  });

  it("Is settled once when eight are sent at the same time, with equal answers", async () => {
    const id = generatePaymentId();
    const body = "eight authorizations";
    const payments = await Promise.all(Array.from({ length: 8 }, () => sign(id)));
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all(payments.map((payment) => gateway.send(payment, { body })));
    expect(answers[0]).toMatchObject(ACCEPTED);
    expect(answers).toEqual(answers.map(() => answers[0]));
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Waits for the outcome of a payment whose settlement is in progress, which a forged one does not", async () => {
    const id = generatePaymentId();
    const body = "in progress";
    const [one, two, forged] = await Promise.all([sign(id), sign(id), forge(id)]);
    const expectChanges = await watchLedger(parts, gateway);
    const answered: string[] = [];
    const send = async (name: string, payment: Payment) => {
      const answer = await gateway.send(payment, { body });
      answered.push(name);
      return answer;
    };
    let waiting: ReturnType<typeof send> | undefined;
    const duringSettle = gateway.duringSettle(async () => {
      waiting = send("two", two);
      return send("forged", forged);
    });
    const first = await send("one", one);
    expect(await duringSettle).toMatchObject({ status: 402, code: "payment_invalid", charged: false });
    expect(await waiting).toEqual(first);
    expect(answered[0]).toBe("forged");
    await gateway.waitForJobs(body);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 2 });
  });

  it("Does not wait for a forged one", async () => {
    const id = generatePaymentId();
    const body = "not delayed";
    const [forged, payment] = await Promise.all([forge(id), sign(id)]);
    const expectChanges = await watchLedger(parts, gateway);
    let isForgedAnswered = false;
    const duringVerify = gateway.facilitatorProxy.during({ path: "/verify" }, async () => {
      expect(await gateway.send(payment, { body })).toMatchObject(ACCEPTED);
      expect(isForgedAnswered).toBe(false);
    });
    const answer = await gateway.send(forged, { body });
    isForgedAnswered = true;
    await duringVerify;
    expect(answer).toMatchObject({ status: 402, code: "payment_invalid", charged: false });
    await gateway.waitForJobs(body);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 2 });
  });
});

/** Makes a payment from the payer's address under his identifier, with a stranger's signature. */
const forge = (id: string): Promise<Payment> =>
  sign(id, { account: accounts.stranger, authorization: { from: accounts.payer.address } });

describe("An identifier in other hands", () => {
  it("An identifier reveals the outcome only to a client that signs for the payer to this seller", async () => {
    const id = generatePaymentId();
    const body = "secret";
    const payment = await sign(id);
    const first = await gateway.send(payment, { body });
    const toAnotherSeller = await sign(id, { authorization: { to: accounts.stranger.address } });
    const forAnotherToken = await sign(id);
    const { accepted } = forAnotherToken.payload;
    const elsewhere = {
      ...forAnotherToken.payload,
      accepted: { ...accepted, asset: accounts.stranger.address },
    };
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all([
      gateway.send(await forge(id), { body }),
      gateway.send(await forge(id), { body: "another body" }),
      gateway.send(toAnotherSeller, { body }),
      gateway.send({ headers: { "payment-signature": base64Json(elsewhere) } }, { body }),
    ]);
    for (const answer of answers) {
      expect(answer).toMatchObject({ status: 402, charged: false });
      expect([answer.access_token, answer.call_id]).toEqual([undefined, undefined]);
    }
    expect(answers.map(({ code }) => code)).toEqual([
      "payment_invalid",
      "payment_invalid",
      "payment_mismatch",
      "payment_mismatch",
    ]);
    await expectChanges({ verifyCalls: 2 });
    expect(await gateway.send(payment, { body })).toEqual(first);
  });

  it("Is proven by the facilitator for a smart account, whose signature names its owner", async () => {
    const { payer } = accounts;
    const wallet = await deployWallet({ anvil: parts.anvil, name: "OwnedWallet", argument: payer.address });
    await parts.usdc.mint(wallet, 10n * AMOUNT);
    const id = generatePaymentId();
    const body = "bought by a smart account";
    const authorization = { from: wallet };
    const expectChanges = await watchLedger(parts, gateway);
    const first = await gateway.send(await sign(id, { authorization }), { body });
    expect(first).toMatchObject(ACCEPTED);
    expect(await gateway.send(await sign(id, { authorization }), { body })).toEqual(first);
    const stranger = await sign(id, { authorization, account: accounts.stranger });
    expect(await gateway.send(stranger, { body })).toMatchObject({ status: 402, code: "payment_invalid" });
    await gateway.waitForJobs(body);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 3 });
  });
});

describe("An identifier whose payment was not taken", () => {
  it("Is free after a refusal before the journal", async () => {
    const id = generatePaymentId();
    const body = "refused first";
    const expectChanges = await watchLedger(parts, gateway);
    gateway.facilitatorProxy.add({ path: "/verify", fault: { kind: "cut" } });
    const refused = await gateway.send(await sign(id), { body: "a body that is dropped" });
    gateway.facilitatorProxy.clear();
    expect(refused).toMatchObject({ status: 503, code: "facilitator_unavailable", charged: false });
    expect(await gateway.send(await sign(id), { body })).toMatchObject(ACCEPTED);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 3 });
  });

  it("Takes no second payment while the first is undecided, and another one once that has failed", async () => {
    const id = generatePaymentId();
    const body = "undecided first";
    const first = await sign(id);
    const expectChanges = await watchLedger(parts, gateway);
    gateway.facilitatorProxy.add({ path: "/settle", times: 1, fault: { kind: "cut" } });
    expect(await gateway.send(first, { body })).toEqual(UNDECIDED);
    expect(await gateway.send(await sign(id), { body })).toEqual(UNDECIDED);
    expect(await gateway.send(await sign(id), { body: "another body" })).toEqual(CONFLICT);
    await parts.usdc.cancelAuthorization(accounts.payer, first.signed.authorization.nonce);
    expect(await gateway.sendUntilDecided(first, { body })).toMatchObject(FAILED);

    const second = await gateway.send(await sign(id), { body });
    expect(second).toMatchObject(ACCEPTED);
    expect(await gateway.send(await sign(id), { body })).toEqual(second);
    expect(await gateway.send(first, { body })).toMatchObject(FAILED);
    await gateway.waitForJobs(body);
    await expectChanges({
      ...ONE_PAID_JOB,
      verifyCalls: 2,
      settleCalls: 2,
      payments: { settled: 1, failed: 1 },
    });
  });
});

it("A job that requires an identifier refuses payments without an identifier, and payments of version 1", async () => {
  const { v1, v2 } = await requestOffer(gateway.urlOf(1));
  expect(v2.extensions?.["payment-identifier"]).toMatchObject({ info: { required: true } });
  const inV1 = await signV1Payment({ offer: v1, account: accounts.payer });
  const expectChanges = await watchLedger(parts, gateway);
  const missing = { status: 400, code: "missing_payment_identifier", charged: false, retryable: false };
  expect(await gateway.send(await gateway.sign({ job: 1 }), { job: 1 })).toEqual(missing);
  expect(await gateway.send(inV1, { job: 1 })).toEqual(missing);
  await expectChanges({});
  const body = "with an identifier";
  const edit = (payload: PaymentPayload) => withIdentifier(payload, generatePaymentId(), true);
  const identified = await gateway.sign({ job: 1, edit });
  expect(await gateway.send(identified, { job: 1, body })).toMatchObject(ACCEPTED);
  await gateway.waitForJobs(body);
});
