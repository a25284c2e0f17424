import { decodePaymentResponseHeader } from "@x402/core/http";
import { beforeAll, describe, expect, it } from "vitest";
import { ACCEPTED, FAILED } from "../../e2e/expected-answers.ts";
import { ONE_PAID_JOB, paidJobs, watchLedger } from "../../e2e/ledger.ts";
import { withPermit2 } from "../../e2e/paid-config.ts";
import { type PaidGateway, SET_UPS, type SetUp, startPaidGateway } from "../../e2e/paid-gateway.ts";
import { AMOUNT, startPaidParts } from "../../e2e/paid-parts.ts";
import { accounts, type TestAccount } from "../../helpers/accounts.ts";
import {
  type Permit2Authorization,
  type Permit2Payment,
  payingFetch,
  requestOffer,
  signPermit2Payment,
} from "../../helpers/clients.ts";
import {
  approvePermit2,
  deployPlainToken,
  installPermit2,
  invalidatePermit2Nonce,
  type PlainToken,
} from "../../helpers/permit2.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

/** Offers, in the order of the configuration. The first one is USDC by EIP-3009. */
const USDC = 1;
const PLAIN = 2;

const parts = startBeforeAll(() => startPaidParts({ sponsorsGas: true }));
let plain: PlainToken;
beforeAll(async () => {
  const { anvil, usdc } = parts;
  await installPermit2(anvil);
  plain = await deployPlainToken(anvil);
  await plain.mint(accounts.payer.address, 1_000_000_000n);
  for (const token of [usdc.address, plain.address])
    await approvePermit2({ anvil, token, account: accounts.payer });
});

/** A gateway that takes USDC by both methods, and a token that has ERC-20 only. */
function startGateway(setUp: SetUp, facilitatorTimeoutSecs = 10): Promise<PaidGateway> {
  return startPaidGateway({
    parts,
    setUp,
    facilitatorTimeoutSecs,
    edit: (config) => withPermit2(config, plain.address),
  });
}

async function permit(
  gateway: PaidGateway,
  { option = USDC, account = accounts.payer, ...changes }: SignOptions = {},
): Promise<Permit2Payment> {
  const { v2: offer } = await requestOffer(gateway.urlOf());
  return signPermit2Payment({ offer, account, option, ...changes });
}
interface SignOptions {
  readonly option?: number;
  readonly account?: TestAccount;
  readonly permit?: Partial<Permit2Authorization>;
}

describe.each(SET_UPS)("Permit2, with %s", (setUp) => {
  const gateway = startBeforeAll(() => startGateway(setUp));

  it("The official client pays the offer of either method → two payments, two jobs", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const { v1, v2 } = await requestOffer(gateway.urlOf());
    expect(v2.accepts.map(({ extra }) => extra.assetTransferMethod)).toEqual([
      undefined,
      "permit2",
      "permit2",
    ]);
    // Version 1 knows EIP-3009 only.
    expect(v1.accepts).toHaveLength(1);
    for (const transferMethod of ["permit2", "eip3009"] as const) {
      const pay = payingFetch({
        account: accounts.payer,
        network: "eip155:84532",
        spendControls: false,
        transferMethod,
      });
      const body = `official, ${transferMethod} ${setUp}`;
      const response = await pay(gateway.urlOf(), { method: "POST", body });
      expect([response.status, await response.json()]).toMatchObject([202, { status: "accepted" }]);
      const settlement = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
      expect(settlement).toMatchObject({ success: true, payer: accounts.payer.address.toLowerCase() });
      await gateway.waitForJobs(body);
    }
    await expectChanges(paidJobs(2));
  });

  it("A token that has ERC-20 only is paid", async () => {
    const expectChanges = await watchLedger(parts, gateway, plain);
    expect(await gateway.send(await permit(gateway, { option: PLAIN }))).toMatchObject(ACCEPTED);
    await expectChanges(ONE_PAID_JOB);
  });

  it("50 copies of one payment at once, and again after a restart → one job, and one answer for all", async () => {
    const payment = await permit(gateway);
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all(Array.from({ length: 50 }, () => gateway.send(payment)));
    expect(answers[0]).toMatchObject(ACCEPTED);
    await gateway.restart();
    answers.push(await gateway.send(payment));
    expect(answers).toEqual(answers.map(() => answers[0]));
    const refused = { status: 409, code: "payment_replay", charged: false };
    expect(await gateway.send(payment, { body: "another" })).toMatchObject(refused);
    expect(await gateway.send(payment, { job: 1 })).toMatchObject(refused);
    // The same nonce, signed again for another end, is another payment that can never be settled.
    const { nonce, deadline } = payment.permit;
    const again = await permit(gateway, { permit: { nonce, deadline: String(Number(deadline) - 1) } });
    expect(await gateway.send(again)).toMatchObject({ status: 409 });
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 2 });
  });

  it("A payer who has not approved Permit2 is refused before anything is stored, and pays after the approval", async () => {
    const { otherPayer } = accounts;
    const token = parts.usdc.address;
    await approvePermit2({ anvil: parts.anvil, token, account: otherPayer, amount: 0n });
    const expectChanges = await watchLedger(parts, gateway);
    const payment = await permit(gateway, { account: otherPayer });
    const { headers } = payment;
    const refusal = await fetch(gateway.urlOf(), { method: "POST", headers, body: "work" });
    expect([refusal.status, await refusal.json()]).toMatchObject([
      402,
      {
        code: "payment_invalid",
        charged: false,
        error: expect.stringContaining("permit2_allowance_required"),
      },
    ]);
    await expectChanges({ verifyCalls: 1 });
    await approvePermit2({ anvil: parts.anvil, token, account: otherPayer });
    expect(await gateway.send(payment)).toMatchObject(ACCEPTED);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 2 });
  });

  it("A payer who cancels the nonce between verify and settle has paid nothing", async () => {
    const payment = await permit(gateway);
    const expectChanges = await watchLedger(parts, gateway);
    const cancelled = gateway.duringSettle(() =>
      invalidatePermit2Nonce(parts.anvil, accounts.payer, payment.permit.nonce),
    );
    const answer = gateway.send(payment);
    await cancelled;
    if (setUp === "rpc_url") {
      expect(await answer).toMatchObject(FAILED);
      await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
    } else {
      expect(await answer).toMatchObject({ status: 503, code: "settlement_unknown", charged: "unknown" });
    }
  });
});

describe("Permit2: signed for something else than the offer", () => {
  const gateway = startBeforeAll(() => startGateway("no rpc_url"));
  const usdc = () => parts.usdc.address;
  const cases: Record<string, () => Partial<Permit2Authorization>> = {
    "another token": () => ({ permitted: { token: plain.address, amount: String(AMOUNT) } }),
    "a unit short": () => ({ permitted: { token: usdc(), amount: String(AMOUNT - 1n) } }),
    "another spender": () => ({ spender: accounts.stranger.address }),
    "another recipient": () => ({ witness: { to: accounts.stranger.address, validAfter: "0" } }),
    "an end in the past": () => ({ deadline: "1" }),
  };
  it.each(Object.entries(cases))("%s is refused before verify", async (_what, changes) => {
    const expectChanges = await watchLedger(parts, gateway);
    expect(await gateway.send(await permit(gateway, { permit: changes() }))).toMatchObject({
      status: 402,
      code: "payment_mismatch",
      charged: false,
      retryable: false,
    });
    await expectChanges({});
  });
});

describe("Permit2: a payer who never approved it, with a facilitator that sponsors the approval", () => {
  const gateway = startBeforeAll(() => startGateway("rpc_url"));

  it.each([
    ["EIP-2612", "eip2612GasSponsoring", () => parts.usdc],
    ["ERC-20 only", "erc20ApprovalGasSponsoring", () => plain],
  ] as const)("Pays in a token that has %s, by the official client", async (_what, extension, tokenOf) => {
    const token = tokenOf();
    const { otherPayer: account } = accounts;
    await token.mint(account.address, AMOUNT);
    await approvePermit2({ anvil: parts.anvil, token: token.address, account, amount: 0n });
    const declared = async () => (await requestOffer(gateway.urlOf())).v2.extensions ?? {};
    await expect.poll(async () => Object.keys(await declared())).toContain(extension);
    const expectChanges = await watchLedger(parts, gateway, token);
    const pay = payingFetch({
      account,
      network: "eip155:84532",
      spendControls: false,
      transferMethod: "permit2",
      asset: token.address,
      rpcUrl: parts.anvil.rpcUrl,
    });
    const response = await pay(gateway.urlOf(), { method: "POST", body: `sponsored, ${extension}` });
    expect([response.status, await response.json()]).toMatchObject([202, { status: "accepted" }]);
    // The facilitator gets what the client filled in.
    const { info } = (await declared())[extension] as { info: object };
    expect(parts.facilitator.calls.at(-1)).toMatchObject({
      route: "settle",
      paymentPayload: {
        extensions: { [extension]: { info: { ...info, from: account.address } } },
      },
    });
    await expectChanges(ONE_PAID_JOB);
  });
});

describe("Permit2's creation code in the place of its contract, where every call succeeds", () => {
  // A request waits that long for the chain too.
  const gateway = startBeforeAll(() => startGateway("rpc_url", 6));

  it("A payment is refused before anything is stored", async () => {
    await installPermit2(parts.anvil, { code: "creation" });
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.send(await permit(gateway));
    await installPermit2(parts.anvil);
    expect(answer).toMatchObject({ status: 503, code: "facilitator_unavailable", charged: false });
    await expectChanges({ verifyCalls: 1 });
  });

  it("The facilitator says success, and nothing moves → no job, and not paid once the signature has expired", async () => {
    const payment = await permit(gateway);
    const expectChanges = await watchLedger(parts, gateway);
    const replaced = gateway.duringSettle(() => installPermit2(parts.anvil, { code: "creation" }));
    const answer = gateway.send(payment);
    await replaced;
    expect(await answer).toMatchObject({ status: 503, code: "settlement_unknown", charged: "unknown" });
    expect(parts.facilitator.calls.at(-1)).toMatchObject({ route: "settle", answer: { success: true } });
    // A slow machine has it settled again before its time is over.
    gateway.facilitatorProxy.add({ path: "/settle", times: 50, fault: { kind: "cut" } });
    await installPermit2(parts.anvil);
    await parts.passTime(400);
    expect(await gateway.sendUntilDecided(payment)).toMatchObject(FAILED);
    gateway.facilitatorProxy.clear();
    await expectChanges({ verifyCalls: 1, settleCalls: expect.any(Number), payments: { failed: 1 } });
  });
});
