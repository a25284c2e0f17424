import { expect, it, onTestFinished } from "vitest";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { settledHere } from "../parts/solana/own-settlement.ts";
import { SETTLER_POINTS } from "../parts/solana/own-settlement-crash.ts";

const parts = startBeforeAll(startSolanaParts);
const postgres = startBeforeAll(startPostgres);

it.each(SETTLER_POINTS)(
  "A replica settles a payment on Solana once, although the replica that sends is killed at %s",
  async (point) => {
    const { cluster, seller, mint } = parts;
    const storeUrl = await postgres.createDatabase();
    let config = "";
    let sending: Jobgate | undefined;
    let selling: Jobgate | undefined;
    const shop = await startSolanaShop(parts, {
      async start(options) {
        config = (await settledHere(options.config, parts)).replace("sqlite:jobgate.db", storeUrl);
        // The first to start holds the lock, so that it sends what the other one queues.
        sending = await startJobgate({
          config,
          folder: await testFolder(),
          env: { JOBGATE_CRASH_AT: point },
        });
        await until(async () => (await metricsOf(sending)).includes("jobgate_settler_unmined{"));
        selling = await startJobgate({ config, folder: await testFolder() });
        return selling;
      },
    });
    onTestFinished(async () => {
      await shop.stop();
      await sending?.stop();
    });
    const before = (await cluster.balanceOf(seller, mint)) ?? 0n;
    const landed = cluster.landed.length;
    const payment = await shop.sign();
    const first = shop.send(payment);
    expect(await sending?.exited).toMatchObject({ signal: "SIGKILL" });
    expect(cluster.landed.length - landed).toBe(point === "transactions/after-broadcast" ? 1 : 0);
    expect([202, 402, 503]).toContain((await first).status);
    await until(async () => (await shop.send(payment)).status === 202);
    await shop.runner.waitFor(1);

    // The process that was killed comes back, and sends nothing again.
    const back = await startJobgate({ config, folder: await testFolder() });
    onTestFinished(async () => void (await back.stop()));
    const runner = await startRunner({ address: back.runnerAddress });
    onTestFinished(runner.stop);
    const next = await shop.sign();
    // Until the lock of the killed process ends, no replica sends.
    await until(async () => (await shop.send(next)).status === 202);
    await until(() => shop.runner.calls.length + runner.calls.length === 2);
    expect(cluster.landed.length - landed).toBe(2);
    expect(await cluster.balanceOf(seller, mint)).toBe(before + 2n * PRICE);
  },
);

async function metricsOf(jobgate: Jobgate | undefined): Promise<string> {
  return (await fetch(`${jobgate?.operatorUrl}/metrics`)).text();
}
