import { generatePaymentId } from "@x402/extensions/payment-identifier";
import { describe, expect, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { claimHeaders } from "../helpers/caller-claim.ts";
import { v2PaymentHeaders, withIdentifier } from "../helpers/clients.ts";
import { ALL_PROTOCOLS } from "./paid-gateway.ts";
import { JOB } from "./restricted-gateway.ts";
import { accepted, NOTHING, ONE_PAYMENT, sign, withRestrictedGateway } from "./restricted-harness.ts";

const { deployer: owner, payer } = accounts;
// Many checks at once can take long: none of them may be refused for that.
const { gateway, buy, watch } = withRestrictedGateway({
  periods: { rpcTimeoutMs: 50_000 },
  facilitatorTimeoutSecs: 50,
});

const REPLAY = { httpStatus: 409, code: "signature_replay", charged: false, retryable: false };

describe("Restricted: nonce reuse", () => {
  test("Is refused with another payment, with the caller in another letter case, over every protocol, and after a restart", async () => {
    const claim = await sign();
    expect(await buy(claim)).toMatchObject({ httpStatus: 202 });
    const { result, ...traces } = await watch(() => buy(claim));
    expect(result).toMatchObject(REPLAY);
    expect(traces).toEqual({ ...NOTHING, counted: { policy_denied: 1, replay_denied: 1 } });

    const otherCase = { ...claim, caller: claim.caller.toLowerCase() };
    expect(await buy(otherCase)).toMatchObject(REPLAY);
    // Signed anew, over another body: it is the nonce that counts.
    const other = await sign({ nonce: claim.nonce, body: "more" });
    expect(await buy(other, { body: "more" })).toMatchObject(REPLAY);

    await gateway.restart();
    const afterwards = await watch(() =>
      Promise.all([buy(otherCase), ...ALL_PROTOCOLS.map((protocol) => buy(claim, { protocol }))]),
    );
    for (const answer of afterwards.result) expect(answer).toMatchObject(REPLAY);
    expect(afterwards).toMatchObject(NOTHING);
  });

  test.each(ALL_PROTOCOLS.slice(1))("Is refused after a purchase over %s", async (protocol) => {
    const claim = await sign();
    expect(await buy(claim, { protocol })).toMatchObject({ httpStatus: 202 });
    expect(await buy(claim)).toMatchObject(REPLAY);
  });

  test("Concurrent requests with as many payments: exactly one wins, and one is settled", async () => {
    const claim = await sign();
    const payments = await Promise.all(Array.from({ length: 4 }, () => gateway.pay()));
    const { result: answers, ...traces } = await watch(() =>
      Promise.all(
        payments.map(({ headers }, i) => {
          const cased = i % 2 === 0 ? claim.caller : claim.caller.toLowerCase();
          return gateway.send(JOB.delegated, { ...headers, ...claimHeaders({ ...claim, caller: cased }) });
        }),
      ),
    );
    const told = answers.map(({ httpStatus, code }) => code ?? httpStatus);
    expect(told.sort()).toEqual([202, ...Array.from({ length: 3 }, () => "signature_replay")]);
    expect(traces).toEqual({
      ...ONE_PAYMENT,
      nonces: 1,
      counted: { ...accepted("x402"), policy_denied: 3, replay_denied: 3 },
    });
  });

  test("Is allowed for another caller", async () => {
    const nonce = crypto.randomUUID();
    expect(await buy(await sign({ nonce }))).toMatchObject({ httpStatus: 202 });
    expect(await buy(await sign({ nonce, account: owner }))).toMatchObject({ httpStatus: 202 });
  });

  test("Is allowed for a resend of the same payment, which gets the first outcome", async () => {
    const { headers } = await gateway.pay();
    const sent = { ...headers, ...claimHeaders(await sign()) };
    const first = await gateway.send(JOB.delegated, sent);
    expect(first).toMatchObject({ httpStatus: 202 });
    expect(await gateway.send(JOB.delegated, sent)).toEqual(first);
  });

  test("Is allowed for a new payment under the first one's identifier, which gets the first outcome", async () => {
    const id = generatePaymentId();
    const claim = claimHeaders(await sign());
    for (const [job, caller] of [
      [JOB.delegated, claim],
      [JOB.payerIsCaller, {}],
    ] as const) {
      const send = async () => {
        const { payload } = await gateway.pay({ account: owner, job });
        return gateway.send(job, { ...v2PaymentHeaders(withIdentifier(payload, `${id}${job}`)), ...caller });
      };
      const { result: answers, ...traces } = await watch(async () => [await send(), await send()]);
      expect(answers[0]).toMatchObject({ httpStatus: 202 });
      expect(answers[1]).toEqual(answers[0]);
      const counted = { accepted: 1, payment_replayed: 1 };
      expect(traces).toEqual({ ...ONE_PAYMENT, nonces: job === JOB.delegated ? 1 : 0, counted });
    }
  });

  test("Is allowed after a refusal, and once it is certain that nothing was charged", async () => {
    const claim = await sign();
    gateway.facilitatorProxy.add({ path: "/verify", fault: { kind: "cut" } });
    expect(await buy(claim)).toMatchObject({ httpStatus: 503, code: "facilitator_unavailable" });
    gateway.facilitatorProxy.clear();

    const { headers, signed } = await gateway.pay();
    const cancelled = gateway.facilitatorProxy.during({ path: "/settle" }, async () => {
      expect(await buy(claim), "while it is undecided").toMatchObject(REPLAY);
      await gateway.usdc.cancelAuthorization(payer, signed.authorization.nonce);
    });
    const sending = gateway.send(JOB.delegated, { ...headers, ...claimHeaders(claim) });
    await cancelled;
    expect(await sending).toMatchObject({ httpStatus: 402, code: "settlement_failed", charged: false });

    expect(await buy(claim)).toMatchObject({ httpStatus: 202 });
    expect(await buy(claim)).toMatchObject(REPLAY);
  });
});
