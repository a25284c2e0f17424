import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import type { PrivateKeyAccount } from "viem/accounts";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import type { FacilitatorRequest } from "../../../src/x402/facilitators/facilitator.ts";
import { newAccount } from "../../helpers/accounts.ts";
import type { ProxiedAnswer } from "../../helpers/fault.ts";
import { type SettlerChainHarness, type SettlerHarness, startSettlerChain } from "./harness.ts";

describe("The local facilitator", () => {
  let chain: SettlerChainHarness;
  let settler: SettlerHarness;

  beforeAll(async () => {
    chain = await startSettlerChain();
    settler = await chain.startSettler();
  });
  afterAll(async () => {
    await settler?.stop();
    await chain?.stop();
  });

  it("verifies and settles a version 2 payment", async () => {
    const request = await chain.request();
    expect(await settler.facilitator.verify(request)).toMatchObject({ kind: "valid" });
    const answer = await settler.settle(request);
    expect(answer).toMatchObject({ kind: "success", network: chain.network });
    expect(await chain.settled([request])).toBe(1);
  });

  it("settles a version 1 payment", async () => {
    const request = asV1(await chain.request());
    expect(await settler.facilitator.verify(request)).toMatchObject({ kind: "valid" });
    expect(await settler.settle(request)).toMatchObject({ kind: "success", network: chain.network });
  });

  it("sends one transaction for a payment that is settled several times", async () => {
    const request = await chain.request();
    const [account] = settler.accounts as [PrivateKeyAccount];
    const before = await chain.minedBy(account);
    const answers = await Promise.all([1, 2, 3].map(() => settler.settle(request)));
    const again = await settler.settle(request);
    expect(new Set([...answers, again].map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(again.kind).toBe("success");
    expect(await chain.minedBy(account)).toBe(before + 1);
  });

  it("sends from several accounts, and journals what waits in one write", async () => {
    const several = await chain.startSettler({ keys: 4 });
    onTestFinished(() => several.stop());
    const requests = await Promise.all(Array.from({ length: 12 }, () => chain.request()));
    await chain.withoutMining(async () => {
      // The first step is held until all are queued.
      const settling = chain.rpc.during({ rpcMethod: "eth_getBlockByNumber" }, () =>
        expect.poll(async () => (await several.queued()).length).toBe(12),
      );
      const answers = requests.map((request) => several.settle(request));
      await settling;
      await chain.untilPending(12);
      await chain.anvil.client.mine({ blocks: 1 });
      expect((await Promise.all(answers)).map(({ kind }) => kind)).toEqual(Array(12).fill("success"));
    });
    expect(await Promise.all(several.accounts.map((account) => chain.minedBy(account)))).toEqual([
      3, 3, 3, 3,
    ]);
    expect(several.writes.length).toBeLessThan(4);
  });

  it("refuses before any charge when no account has min_balance", async () => {
    const poor = await chain.startSettler({ fundsWei: 10n ** 14n });
    onTestFinished(() => poor.stop());
    await expect(poor.facilitator.verify(await chain.request())).rejects.toMatchObject({
      code: "settler_unfunded",
      status: 503,
    });
    expect(poor.messages).toContain(
      "an account that sends transactions is below min_balance: send it funds for gas",
    );
  });

  it("skips an account below min_balance while another has funds", async () => {
    const two = await chain.startSettler({ keys: 2 });
    onTestFinished(() => two.stop());
    const [poor, rich] = two.accounts as [PrivateKeyAccount, PrivateKeyAccount];
    await chain.anvil.client.setBalance({ address: poor.address, value: 9n * 10n ** 14n });
    const requests = await Promise.all([chain.request(), chain.request()]);
    expect(await two.facilitator.verify(requests[0])).toMatchObject({ kind: "valid" });
    const answers = await Promise.all(requests.map((request) => two.settle(request)));
    expect(answers).toMatchObject([{ kind: "success" }, { kind: "success" }]);
    expect([await chain.minedBy(poor), await chain.minedBy(rich)]).toEqual([0, 2]);
  });

  it("says that a payer lacks the tokens", async () => {
    const request = await chain.request({ account: newAccount() });
    expect(await settler.facilitator.verify(request)).toEqual({
      kind: "invalid",
      reason: "insufficient_funds",
    });
  });

  it("takes no verdict from a chain that does not answer", async () => {
    const request = await chain.request();
    onTestFinished(() => chain.rpc.clear());
    chain.rpc.add({ rpcMethod: "eth_getCode", fault: { kind: "cut" } });
    await expect(settler.facilitator.verify(request)).rejects.toMatchObject({
      code: "facilitator_unavailable",
    });
  });

  it("refuses what the estimate of gas shows reverted, and uses no nonce for it", async () => {
    const [account] = settler.accounts as [PrivateKeyAccount];
    const paid = await chain.request();
    await chain.usdc.transferWithAuthorization((paid.payload as PaymentPayload).payload as never);
    const before = await chain.minedBy(account);
    expect(await settler.settle(paid)).toMatchObject({ kind: "refused" });
    expect(await settler.settle(await chain.request())).toMatchObject({ kind: "success" });
    expect(await chain.minedBy(account)).toBe(before + 1);
  });

  it("refuses a settlement that would use too much gas, and uses no nonce for it", async () => {
    const [account] = settler.accounts as [PrivateKeyAccount];
    const before = await chain.minedBy(account);
    onTestFinished(() => chain.rpc.clear());
    const change = ({ status, headers, body }: ProxiedAnswer): ProxiedAnswer => ({
      status,
      headers,
      body: Buffer.from(JSON.stringify({ ...(JSON.parse(body.toString()) as object), result: "0x7a121" })),
    });
    chain.rpc.add({ rpcMethod: "eth_estimateGas", fault: { kind: "change", change } });
    expect(await settler.settle(await chain.request())).toMatchObject({ kind: "refused" });
    expect(await chain.minedBy(account)).toBe(before);
  });

  it("queues at any replica, and the replica that is left sends", async () => {
    const shared = await chain.startSettler({ isShared: true });
    onTestFinished(() => shared.stop());
    const [account] = shared.accounts as [PrivateKeyAccount];
    expect(await shared.settle(await chain.request())).toMatchObject({ kind: "success" });
    const replica = await shared.startReplica();
    onTestFinished(() => replica.stop());
    expect(await replica.settle(await chain.request())).toMatchObject({ kind: "success" });
    expect(shared.writes).toEqual([1, 1]);

    await shared.facilitator.stop();
    expect(await replica.settle(await chain.request())).toMatchObject({ kind: "success" });
    expect(await chain.minedBy(account)).toBe(3);
  });

  it("says that a settlement is pending when it is not mined in time, and finds it again", async () => {
    const hasty = await chain.startSettler({ timeoutMs: 1_000 });
    onTestFinished(() => hasty.stop());
    const request = await chain.request();
    await chain.withoutMining(async () => {
      const settle = () => hasty.settle(request);
      // On a busy machine it may not even be signed in time.
      await expect.poll(settle).toMatchObject({ kind: "refused", reason: "settlement_pending" });
      const pending = await settle();
      await chain.untilPending(1);
      await chain.anvil.client.mine({ blocks: 1 });
      // It has expired by now, so it would not be verified again.
      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 86_400_000 });
      onTestFinished(() => void vi.useRealTimers());
      await expect.poll(settle).toEqual({
        kind: "success",
        transaction: (pending as { transaction: string }).transaction,
        blockNumber: expect.stringMatching(/^[0-9]+$/),
        network: chain.network,
        payer: (
          (request.payload as PaymentPayload).payload as { authorization: { from: string } }
        ).authorization.from.toLowerCase(),
      });
    });
  });
});

function asV1({ payload, requirements }: FacilitatorRequest): FacilitatorRequest {
  const { amount, ...rest } = requirements as PaymentRequirements;
  const required = { ...rest, network: "base-sepolia", maxAmountRequired: amount };
  return {
    payload: {
      x402Version: 1,
      scheme: "exact",
      network: "base-sepolia",
      payload: (payload as PaymentPayload).payload,
    },
    requirements: {
      ...required,
      resource: "http://127.0.0.1/",
      description: "",
      mimeType: "",
      outputSchema: {},
    },
  } as unknown as FacilitatorRequest;
}
