import { afterEach, describe, expect, it } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import type { PaymentOutcome } from "../../../src/x402/settlement/payment-outcome.ts";
import { accounts } from "../../helpers/accounts.ts";
import type { ProxiedAnswer } from "../../helpers/fault.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { jobCall, type PaymentToSettle, paymentToSettle } from "../payment-fixtures.ts";
import { startSettlementHarness } from "./harness.ts";

const harness = startBeforeAll(startSettlementHarness);

afterEach(() => {
  harness.facilitator.clear();
  harness.rpc.clear();
});

const newPayment = (): Promise<PaymentToSettle> =>
  paymentToSettle({ anvil: harness.anvil, token: harness.usdc });

/** The facilitator settles, and its answer is held back until `release` is called with it, changed or not. */
function holdAnswer(): { readonly release: (change?: (answer: ProxiedAnswer) => ProxiedAnswer) => void } {
  let release: (change?: (answer: ProxiedAnswer) => ProxiedAnswer) => void = () => undefined;
  const released = new Promise<(answer: ProxiedAnswer) => ProxiedAnswer>((resolve) => {
    release = (change = (answer) => answer) => resolve(change);
  });
  const change = async (answer: ProxiedAnswer) => (await released)(answer);
  harness.facilitator.add({ path: "/settle", times: 1, fault: { kind: "change", change } });
  return { release };
}

/** Resolves once so many further looks at the chain have begun. */
function looks(count: number): Promise<void> {
  return new Promise((resolve) => {
    let begun = 0;
    const when = () => {
      begun += 1;
      if (begun === count) resolve();
      return false;
    };
    harness.rpc.add({ rpcMethod: "eth_getBlockByNumber", when, fault: { kind: "pass" } });
  });
}

const stateOf = async ({ key }: PaymentIntent) => (await harness.store.findPayment(key))?.state;

/** Tells whether an outcome is still awaited. */
function watch(outcome: Promise<PaymentOutcome>): { readonly isPending: boolean } {
  const watched = { isPending: true };
  void outcome.finally(() => {
    watched.isPending = false;
  });
  return watched;
}

describe("A facilitator that settled and has not answered", () => {
  it("Is not waited for once the chain shows the payment", async () => {
    const { intent } = await newPayment();
    const settles = harness.facilitator.count("/settle");
    const { release } = holdAnswer();
    const outcome = await harness.patient(1).settle(intent, jobCall);
    expect(outcome).toMatchObject({ kind: "accepted", settlement: { success: true } });
    expect(await stateOf(intent)).toBe("settled");
    expect(harness.facilitator.count("/settle")).toBe(settles + 1);
    release();
  });

  it("Cannot take the payment back with a later no", async () => {
    const { intent } = await newPayment();
    const { release } = holdAnswer();
    const settlement = harness.patient(1);
    expect(await settlement.settle(intent, jobCall)).toMatchObject({ kind: "accepted" });
    const heard = new Promise<void>((resolve) => {
      release((answer) => {
        resolve();
        return { ...answer, body: Buffer.from('{"success":false,"errorReason":"insufficient_funds"}') };
      });
    });
    await heard;
    await settlement.forgetDecided();
    expect(await stateOf(intent)).toBe("settled");
  });

  it("Is waited for while the payment has too few confirmations", async () => {
    const { intent } = await newPayment();
    const { release } = holdAnswer();
    const outcome = harness.patient(3).settle(intent, jobCall);
    const watched = watch(outcome);
    // The first of them may have begun before the payment was mined.
    await looks(3);
    expect([watched.isPending, await stateOf(intent)]).toEqual([true, "intent"]);
    await harness.anvil.client.mine({ blocks: 2 });
    expect(await outcome).toMatchObject({ kind: "accepted" });
    release();
  });

  it("Is waited for without rpc_url", async () => {
    const { intent } = await newPayment();
    const { release } = holdAnswer();
    const outcome = harness.withoutRpc.settle(intent, jobCall);
    release();
    expect(await outcome).toMatchObject({ kind: "accepted" });
  });
});

describe("A facilitator without an answer", () => {
  it("Is waited for although the chain shows that the payment can never be paid", async () => {
    const { intent, signed } = await newPayment();
    let release: () => void = () => undefined;
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    harness.facilitator.add({ path: "/settle", times: 1, fault: { kind: "hold-request", until } });
    await harness.usdc.cancelAuthorization(accounts.payer, signed.authorization.nonce);
    const outcome = harness.patient(1).settle(intent, jobCall);
    const watched = watch(outcome);
    // Long enough for the second look that it takes to say so.
    await looks(24);
    expect([watched.isPending, await stateOf(intent)]).toEqual([true, "intent"]);
    release();
    expect(await outcome).toMatchObject({ kind: "failed" });
  });

  it("Is waited for while the chain cannot be queried", async () => {
    const { intent } = await newPayment();
    const { release } = holdAnswer();
    let asked: () => void = () => undefined;
    const wasAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const when = () => {
      asked();
      return true;
    };
    harness.rpc.add({ when, fault: { kind: "cut" } });
    const outcome = harness.patient(1).settle(intent, jobCall);
    const watched = watch(outcome);
    await wasAsked;
    expect(watched.isPending).toBe(true);
    harness.rpc.clear();
    expect(await outcome).toMatchObject({ kind: "accepted" });
    release();
  });
});
