import { describe, expect, it, onTestFinished } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { authorize, decided, offerByUse, startGatewayByUse, startPartsByUse } from "./by-use.ts";
import { expectBalance } from "./ledger.ts";
import { localSettler } from "./local-facilitator.ts";
import { type PaidGatewayOptions, SET_UPS } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";

const parts = startBeforeAll(startPartsByUse);
const received = () => parts.usdc.balanceOf(accounts.payTo.address);

async function startLocal(options: Partial<PaidGatewayOptions> = {}) {
  const settler = await localSettler({ anvil: parts.anvil });
  const gateway = await startGatewayByUse({ setUp: "rpc_url", ...options, parts, edit: settler.edit });
  onTestFinished(() => gateway.stop());
  return { gateway, settler };
}

describe("jobgate settles payments by use itself", () => {
  it.each(SET_UPS)("By transactions of its own account, with %s", async (setUp) => {
    const { gateway, settler } = await startLocal({ setUp });
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

  it.each(["settler-after-journal", "settler-after-broadcast"])(
    "And once, although it is killed %s",
    async (crashAt) => {
      const { gateway } = await startLocal({ env: { JOBGATE_CRASH_AT: crashAt } });
      const before = await received();
      const payment = await authorize(gateway);
      const body = `6 ${crashAt}`;
      await gateway.send(payment, { body }).catch(() => undefined);
      expect(await gateway.jobgate.exited).toEqual({ code: null, signal: "SIGKILL" });
      await gateway.startAgain({ asProcess: true });
      await offerByUse(gateway);
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
