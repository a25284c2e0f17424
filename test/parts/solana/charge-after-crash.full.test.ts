import { describe, expect, it, onTestFinished } from "vitest";
import { type Jobgate, startJobgate } from "../../helpers/jobgate-process.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { AFTER, AFTER_TABLE, chargeOf, expectChargedOnce } from "./charge-after.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "./harness.ts";

const CRASHES = ["before-delivery", "after-ack", "before-charge", "after-settle", "after-commit"] as const;
const SETTLER_CRASHES = [
  "transactions/before-journal",
  "transactions/after-journal",
  "transactions/after-broadcast",
] as const;

const parts = startBeforeAll(startSolanaParts);
const postgres = startBeforeAll(startPostgres);

describe("A job that is charged after it ran", () => {
  it.each(CRASHES)("is charged once if jobgate is killed %s", (crashAt) =>
    expectChargedOnce(parts, { crashAt }),
  );

  it.each([...CRASHES, ...SETTLER_CRASHES])(
    "is charged once if jobgate, which settles itself, is killed %s",
    (crashAt) => expectChargedOnce(parts, { crashAt, isSettledHere: true }),
  );

  it.each(["before-charge", "after-settle"])(
    "is charged by another gateway on the same Postgres if its own is killed %s and never starts again",
    async (crashAt) => {
      const { cluster, seller, mint } = parts;
      const storeUrl = await postgres.createDatabase();
      const gateways: Jobgate[] = [];
      onTestFinished(async () => void (await Promise.all(gateways.map((gateway) => gateway.stop()))));
      const at = () => gateways.at(-1) as Jobgate;
      let config = "";
      const shop = await startSolanaShop(parts, {
        more: AFTER_TABLE,
        async start(options) {
          config = options.config.replace("sqlite:jobgate.db", storeUrl);
          gateways.push(await startJobgate({ config, env: { JOBGATE_CRASH_AT: crashAt } }));
          return new Proxy({} as Jobgate, { get: (_, name) => Reflect.get(at(), name) });
        },
      });
      onTestFinished(shop.facilitator.stop);
      const [first] = gateways as [Jobgate];
      // The first gateway holds the lock of charges.
      const other = await startJobgate({ config });
      gateways.push(other);
      const runners = [shop.runner, await startRunner({ address: other.runnerAddress })];
      onTestFinished(async () => void (await Promise.all(runners.map((runner) => runner.stop()))));
      const before = (await cluster.balanceOf(seller, mint)) ?? 0n;
      const payment = await shop.sign(undefined, undefined, AFTER);
      // The memo and the blockhash of one gateway's 402 are good at the other gateway.
      gateways.reverse();
      const bought = await shop.send(payment, { job: AFTER });
      expect(bought).toMatchObject({ status: 202, payment: "authorized" });
      expect(await first.exited).toEqual({ code: null, signal: "SIGKILL" });

      await expect.poll(() => chargeOf(other.x402Url, bought)).toBe("settled");
      expect(await cluster.balanceOf(seller, mint)).toBe(before + PRICE);
      expect(runners.flatMap(({ calls }) => calls).length).toBe(1);
    },
  );
});
