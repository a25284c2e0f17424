import { beforeAll, describe, expect, it } from "vitest";
import { Fail } from "../../src/runner/job.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signPermit2Payment } from "../helpers/clients.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { expectBalance } from "./ledger.ts";
import { type LocalSettler, localSettler } from "./local-facilitator.ts";
import { decided, startMeteredParts } from "./metered.ts";
import { withPermit2 } from "./paid-config.ts";
import { type PaidGateway, type PaidGatewayOptions, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";

const CRASHES = [
  "before-delivery",
  "after-ack",
  "before-charge",
  "transactions/before-journal",
  "transactions/after-journal",
  "transactions/after-broadcast",
  "after-settle",
  "after-commit",
] as const;

const parts = startBeforeAll(startMeteredParts);
const postgres = startBeforeAll(startPostgres);
let settler: LocalSettler;
beforeAll(async () => {
  settler = await localSettler({ anvil: parts.anvil });
});
const received = () => parts.usdc.balanceOf(accounts.payTo.address);

/** Sells job 0 after it ran. */
function startGateway({
  edit = (config) => config,
  ...options
}: Partial<PaidGatewayOptions>): Promise<PaidGateway> {
  return startPaidGateway({
    ...{ parts, setUp: "rpc_url", ...options },
    handle({ body }) {
      if (Buffer.from(body).toString().startsWith("fail")) throw new Fail("no ink");
      return { body: Buffer.from("result") };
    },
    edit: (config) => `${edit(config)}
[[jobs]]
job_index = 0
mode = "public_paid"
charge = "after"
max_run_secs = 60
`,
  });
}

/** Signs a payment by the last offer. */
async function sign(gateway: PaidGateway) {
  const { v2: offer } = await requestOffer(gateway.urlOf());
  const option = offer.accepts.length - 1;
  const isPermit2 = offer.accepts[option]?.extra.assetTransferMethod === "permit2";
  return isPermit2
    ? signPermit2Payment({ offer, account: accounts.payer, option })
    : gateway.sign({ option });
}

const WAYS: Readonly<Record<string, () => Promise<Partial<PaidGatewayOptions>>>> = {
  Permit2: async () => ({ edit: withPermit2 }),
  "the local facilitator": async () => ({ edit: settler.edit }),
  "Permit2 and the local facilitator": async () => ({ edit: (config) => settler.edit(withPermit2(config)) }),
  Postgres: async () => ({ storeUrl: await postgres.createDatabase() }),
};

describe("A job that is charged after it ran", () => {
  it.each(Object.keys(WAYS))("is paid if it succeeds, and only then: by %s", async (way) => {
    const gateway = await startGateway((await WAYS[way]?.()) ?? {});
    try {
      const before = await received();
      const failed = await gateway.send(await sign(gateway), { body: "fail" });
      expect(await decided(gateway, failed)).toMatchObject({ charge: { state: "released" } });
      expect(await received()).toBe(before);
      const payment = await sign(gateway);
      const bought = await gateway.send(payment);
      expect(bought).toMatchObject({ status: 202, payment: "authorized" });
      expect(await decided(gateway, bought)).toMatchObject({
        charge: { state: "settled", amount: String(AMOUNT) },
        result: { status: 200, text: "result" },
      });
      expect(await received()).toBe(before + AMOUNT);
      expect(await gateway.send(payment)).toMatchObject({ status: 202, call_id: bought.call_id });
      await expectBalance(gateway);
    } finally {
      await gateway.stop();
    }
  });

  it.each(CRASHES)("is paid once if jobgate, which settles itself, is killed %s", async (crashAt) => {
    const gateway = await startGateway({
      ...{ edit: settler.edit, leaseSecs: 2, env: { JOBGATE_CRASH_AT: crashAt } },
    });
    try {
      const before = await received();
      const payment = await gateway.sign();
      await gateway.send(payment).catch(() => undefined);
      expect(await gateway.jobgate.exited).toEqual({ code: null, signal: "SIGKILL" });
      await gateway.startAgain({ asProcess: true });
      const bought = await gateway.sendUntilDecided(payment);
      expect(await decided(gateway, bought)).toMatchObject({
        charge: { state: "settled", amount: String(AMOUNT) },
        result: { status: 200, text: "result" },
      });
      expect(await received()).toBe(before + AMOUNT);
      await expectBalance(gateway);
    } finally {
      await gateway.stop();
    }
  });
});
