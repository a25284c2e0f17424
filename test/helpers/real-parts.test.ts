import type { PaymentRequired, PaymentRequirements, SettleResponse, VerifyResponse } from "@x402/core/types";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accounts } from "./accounts.ts";
import { type Anvil, borrowAnvil, minedReceipt } from "./anvil.ts";
import { signPermit2Payment, signV2Payment } from "./clients.ts";
import { type Facilitator, startFacilitator } from "./facilitator.ts";
import { approvePermit2, installPermit2, invalidatePermit2Nonce, isPermit2NonceUsed } from "./permit2.ts";
import { deployUsdc, type Token } from "./usdc.ts";

let anvil: Anvil;
let usdc: Token;
let facilitator: Facilitator;
let requirements: PaymentRequirements;
let offer: PaymentRequired;

beforeAll(async () => {
  anvil = await borrowAnvil();
  usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000n);
  facilitator = await startFacilitator({ anvil });
  requirements = {
    scheme: "exact",
    network: "eip155:84532",
    amount: "3264000",
    asset: usdc.address,
    payTo: accounts.payTo.address,
    maxTimeoutSeconds: 300,
    extra: { name: usdc.name, version: usdc.version },
  };
  offer = { x402Version: 2, resource: { url: "http://127.0.0.1/" }, accepts: [requirements] };
});

afterAll(async () => {
  await facilitator?.stop();
  await anvil?.stop();
});

async function ask<Answer>(route: "verify" | "settle", paymentPayload: unknown): Promise<Answer> {
  const response = await fetch(`${facilitator.url}/${route}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ x402Version: 2, paymentPayload, paymentRequirements: requirements }),
  });
  return (await response.json()) as Answer;
}

describe("the chain, the token and the facilitator that the tests run against", () => {
  it("A transaction that automatic mining left in the pool is mined when its receipt is waited for", async () => {
    await anvil.client.setAutomine(false);
    try {
      const to = accounts.stranger.address;
      const hash = await anvil.client.sendTransaction({ account: accounts.deployer.address, to });
      // anvil takes the pool's transactions when it is told to mine automatically again, so it is not told.
      const forgetful = { ...anvil, client: { ...anvil.client, getAutomine: async () => true } };
      expect(await minedReceipt(anvil.client, { anvil: forgetful, hash })).toMatchObject({
        status: "success",
      });
    } finally {
      await anvil.client.setAutomine(true);
    }
  });

  it("A signed payment verifies, settles and moves exactly its amount of USDC", async () => {
    const { payload, signed } = await signV2Payment({ offer, account: accounts.payer });
    const [paidBefore, receivedBefore] = await balances();
    expect(await ask<VerifyResponse>("verify", payload)).toMatchObject({
      isValid: true,
      payer: accounts.payer.address,
    });
    expect(await ask<SettleResponse>("settle", payload)).toMatchObject({
      success: true,
      network: "eip155:84532",
      transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    });
    expect(await balances()).toEqual([paidBefore - 3_264_000n, receivedBefore + 3_264_000n]);
    expect(await usdc.authorizationState(accounts.payer.address, signed.authorization.nonce)).toBe(true);
  });

  it("Twenty concurrent settlements all succeed", async () => {
    const payments = await Promise.all(
      Array.from({ length: 20 }, () => signV2Payment({ offer, account: accounts.payer })),
    );
    const [, receivedBefore] = await balances();
    const answers = await Promise.all(payments.map(({ payload }) => ask<SettleResponse>("settle", payload)));
    expect(answers.filter(({ success }) => !success)).toEqual([]);
    expect((await balances())[1]).toBe(receivedBefore + 20n * 3_264_000n);
  });

  it("A payment whose signed amount differs from the requirements does not verify", async () => {
    const authorization = { value: "3263999" };
    const { payload } = await signV2Payment({ offer, account: accounts.payer, authorization });
    expect(await ask<VerifyResponse>("verify", payload)).toMatchObject({ isValid: false });
  });

  it("A payer without money is refused for that reason, which the facilitator reads through Multicall3", async () => {
    const { payload } = await signV2Payment({ offer, account: accounts.otherPayer });
    expect(await ask<VerifyResponse>("verify", payload)).toMatchObject({
      isValid: false,
      invalidReason: "invalid_exact_evm_insufficient_balance",
    });
  });

  it("A payment that its payer cancelled, or that someone else executed, cannot be settled", async () => {
    const cancelled = await signV2Payment({ offer, account: accounts.payer });
    await usdc.cancelAuthorization(accounts.payer, cancelled.signed.authorization.nonce);
    const frontRun = await signV2Payment({ offer, account: accounts.payer });
    await usdc.transferWithAuthorization(frontRun.signed);
    for (const { payload } of [cancelled, frontRun]) {
      expect(await ask<SettleResponse>("settle", payload)).toMatchObject({ success: false });
    }
  });

  it("A Permit2 payment 'settles' with Permit2's creation code, or no code, in its place, and moves nothing", async () => {
    const before = await balances();
    const { payload } = await signPermit2Payment({ offer, account: accounts.payer });
    expect(await ask<SettleResponse>("settle", payload)).toMatchObject({ success: true });
    await installPermit2(anvil, { code: "creation" });
    await approvePermit2({ anvil, token: usdc.address, account: accounts.payer });
    expect(await ask<VerifyResponse>("verify", payload)).toMatchObject({ isValid: true });
    expect(await ask<SettleResponse>("settle", payload)).toMatchObject({ success: true });
    expect(await balances()).toEqual(before);
    await approvePermit2({ anvil, token: usdc.address, account: accounts.payer, amount: 0n });
  });

  it("A Permit2 payment verifies, settles once and moves exactly its amount", async () => {
    await installPermit2(anvil);
    const { payload, permit } = await signPermit2Payment({ offer, account: accounts.payer });
    const [paidBefore, receivedBefore] = await balances();
    expect(await ask<VerifyResponse>("verify", payload)).toMatchObject({
      isValid: false,
      invalidReason: "permit2_allowance_required",
    });
    await approvePermit2({ anvil, token: usdc.address, account: accounts.payer });
    expect(await ask<VerifyResponse>("verify", payload)).toMatchObject({
      isValid: true,
      payer: accounts.payer.address,
    });
    expect(await ask<SettleResponse>("settle", payload)).toMatchObject({ success: true });
    expect(await ask<SettleResponse>("settle", payload)).toMatchObject({ success: false });
    expect(await balances()).toEqual([paidBefore - 3_264_000n, receivedBefore + 3_264_000n]);
    expect(await isPermit2NonceUsed(anvil, permit.from, permit.nonce)).toBe(true);

    const invalidated = await signPermit2Payment({ offer, account: accounts.payer });
    await invalidatePermit2Nonce(anvil, accounts.payer, invalidated.permit.nonce);
    expect(await ask<SettleResponse>("settle", invalidated.payload)).toMatchObject({ success: false });
  });
});

async function balances(): Promise<[payer: bigint, payTo: bigint]> {
  return Promise.all([usdc.balanceOf(accounts.payer.address), usdc.balanceOf(accounts.payTo.address)]);
}
