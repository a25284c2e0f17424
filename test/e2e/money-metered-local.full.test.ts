import { describe, expect, it, onTestFinished } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { expectBalance } from "./ledger.ts";
import { localSettler } from "./local-facilitator.ts";
import {
  authorize,
  decided,
  newPayer,
  offerMetered,
  startMeteredGateway,
  startMeteredParts,
} from "./metered.ts";
import type { PaidGatewayOptions } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";

const parts = startBeforeAll(startMeteredParts);
const received = () => parts.usdc.balanceOf(accounts.payTo.address);

async function startLocal(options: Partial<PaidGatewayOptions> = {}) {
  const settler = await localSettler({ anvil: parts.anvil });
  const gateway = await startMeteredGateway({ setUp: "rpc_url", ...options, parts, edit: settler.edit });
  onTestFinished(() => gateway.stop());
  return { gateway, settler };
}

describe("jobgate settles metered payments itself", () => {
  it("By transactions of its own account", async () => {
    const { gateway, settler } = await startLocal();
    const settles = parts.facilitator.counts.settle;
    for (const [charge, amount] of [
      ["0", 0n],
      ["1", 1n],
      [`${AMOUNT / 2n}`, AMOUNT / 2n],
      ["all", AMOUNT],
    ] as const) {
      const before = await received();
      const bought = await gateway.send(await authorize(gateway), { body: `${charge} local` });
      const { charge: paid, result } = await decided(gateway, bought);
      expect(result.status).toBe(200);
      expect(paid).toMatchObject({ state: amount === 0n ? "released" : "settled", amount: String(amount) });
      expect(await received()).toBe(before + amount);
      if (paid.transaction === undefined) continue;
      const hash = paid.transaction as `0x${string}`;
      const { from } = await parts.anvil.client.getTransaction({ hash });
      expect(from).toBe(settler.addresses[0]?.toLowerCase());
    }
    expect(parts.facilitator.counts.settle).toBe(settles);
    await expectBalance(gateway);
  });

  it("Of ten jobs at once whose payer holds one ceiling, one is accepted and paid, a twentieth", async () => {
    const { gateway } = await startLocal();
    const account = await newPayer(parts);
    const before = await received();
    await offerMetered(gateway);
    const pay = payingFetch({ account, network: "eip155:84532", spendControls: false, scheme: "upto" });
    const share = AMOUNT / 20n;
    const buy = (number: number) => pay(gateway.urlOf(), { method: "POST", body: `${share} job ${number}` });
    const answers = await Promise.all(Array.from({ length: 10 }, (_, number) => buy(number)));
    const accepted = answers.filter(({ status }) => status === 202);
    const refused = answers.filter(({ status }) => status === 402);
    expect([accepted.length, refused.length]).toEqual([1, 9]);
    for (const response of refused)
      expect(await response.json()).toMatchObject({
        code: "payment_invalid",
        error: expect.stringContaining("insufficient_funds"),
      });
    for (const response of accepted) {
      const bought = (await response.json()) as { call_id: number; access_token: string };
      expect((await decided(gateway, bought)).charge).toMatchObject({
        state: "settled",
        amount: `${share}`,
      });
    }
    expect(await received()).toBe(before + share * BigInt(accepted.length));
    await expectBalance(gateway);
  });

  it("A charge is collected from a payer who holds no more than the charge", async () => {
    const charge = AMOUNT / 20n;
    let finish: (() => void) | undefined;
    const isDrained = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const handle: PaidGatewayOptions["handle"] = async () => {
      await isDrained;
      return { body: Buffer.from("done"), charge };
    };
    const { gateway } = await startLocal({ handle });
    const account = await newPayer(parts);
    const before = await received();
    const bought = await gateway.send(await authorize(gateway, { account }), { body: "drained" });
    await gateway.waitForJobs("drained");
    await parts.usdc.transfer(account, accounts.stranger.address, AMOUNT - charge);
    finish?.();
    expect((await decided(gateway, bought)).charge).toMatchObject({ state: "settled", amount: `${charge}` });
    expect(await received()).toBe(before + charge);
    await expectBalance(gateway);
  });

  it.each(["transactions/after-journal", "transactions/after-broadcast"])(
    "And once, although it is killed %s",
    async (crashAt) => {
      const { gateway } = await startLocal({ env: { JOBGATE_CRASH_AT: crashAt } });
      const before = await received();
      const payment = await authorize(gateway);
      const body = `6 ${crashAt}`;
      await gateway.send(payment, { body }).catch(() => undefined);
      expect(await gateway.jobgate.exited).toEqual({ code: null, signal: "SIGKILL" });
      await gateway.startAgain({ asProcess: true });
      await offerMetered(gateway);
      const bought = await gateway.sendUntilDecided(payment, { body });
      expect(await decided(gateway, bought)).toMatchObject({
        state: "succeeded",
        charge: { state: "settled", amount: "6" },
      });
      expect(await received()).toBe(before + 6n);
      await expectBalance(gateway);
    },
  );
});
