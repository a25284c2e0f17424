import { expect, it, onTestFinished } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { SOLANA_NETWORK } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";
import { startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { REFUND_POINTS } from "./refund-account.ts";
import { onlyRefund, solanaRefundAccount } from "./refunds-solana.ts";

const parts = startBeforeAll(startSolanaParts);
const postgres = startBeforeAll(startPostgres);

it.each(REFUND_POINTS)(
  "A refund on Solana is sent once, although the replica that sends refunds is killed at %s",
  async (point) => {
    const { cluster, payer, mint } = parts;
    const account = await solanaRefundAccount(parts);
    const storeUrl = await postgres.createDatabase();
    let config = "";
    let sending: Jobgate | undefined;
    const shop = await startSolanaShop(parts, {
      handle: () => Promise.reject(new Fail("no good")),
      async start(options) {
        config = account.edit(options.config).replace("sqlite:jobgate.db", storeUrl);
        // The first to start holds the lock, so that it sends what the other one owes.
        sending = await startJobgate({
          config,
          folder: await testFolder(),
          env: { JOBGATE_CRASH_AT: point },
        });
        const queue = `jobgate_settler_unmined{network="${SOLANA_NETWORK}/refunds"}`;
        await until(async () => (await metricsOf(sending)).includes(queue));
        return startJobgate({ config, folder: await testFolder() });
      },
    });
    onTestFinished(async () => {
      await shop.stop();
      await sending?.stop();
    });
    const before = await cluster.balanceOf(payer, mint);
    const sent = account.sent().length;
    expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
    expect(await sending?.exited).toMatchObject({ signal: "SIGKILL" });

    // The process that was killed comes back, and sends nothing again.
    const back = await startJobgate({ config, folder: await testFolder() });
    onTestFinished(async () => void (await back.stop()));
    for (const jobgate of [shop.jobgate, back])
      await expect.poll(() => onlyRefund(jobgate)).toMatchObject({ state: RefundState.REFUNDED, attempt: 1 });
    expect(account.sent().slice(sent)).toEqual([(await onlyRefund(back))?.transaction]);
    expect(await cluster.balanceOf(payer, mint)).toBe(before);
    const operator = createOperatorClient({ address: { url: back.operatorUrl } });
    expect(await operator.getTotals({})).toMatchObject({ balanced: true, kept: 0n });
  },
);

async function metricsOf(jobgate: Jobgate | undefined): Promise<string> {
  return (await fetch(`${jobgate?.operatorUrl}/metrics`)).text();
}
