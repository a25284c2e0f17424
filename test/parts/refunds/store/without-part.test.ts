import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openDriver } from "../../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../../src/store/sqlite/sqlite-store.ts";
import { runJobgate } from "../../../commands/run-jobgate.ts";
import { startJobgate } from "../../../helpers/jobgate-process.ts";
import { WEBHOOKS_CONFIG } from "../../../helpers/small-configs.ts";
import { testFolder } from "../../../helpers/test-folder.ts";
import { Bundles } from "../../../removable/bundles.ts";
import { otherParts } from "../../../store/refused-store.ts";
import { claimOne, encodeTestCall, paidCall, paymentIntent } from "../../../store/store-fixtures.ts";

/** A store with a paid JobCall that failed. @returns its path */
async function storeAfter(onFailure: "keep" | "refund"): Promise<string> {
  const path = join(await testFolder(), "jobgate.db");
  const store = await openSqliteStore({ path, maxPending: 9, threads: false, encodeJobCall: encodeTestCall });
  const intent = paymentIntent(1, { onFailure });
  await store.beginPayment(intent, paidCall());
  await store.settlePayment(intent.key, "{}");
  await store.fail(await claimOne(store), "no good");
  await store.close();
  return path;
}

test("A build without refunds refuses a store in which a refund is owed, and serves a store without refunds", async () => {
  const bundles = new Bundles();
  onTestFinished(() => bundles.close());
  await bundles.makeWithout(["refunds"]);
  const from = { builtIn: bundles.folder };
  const configOf = (path: string) => `${WEBHOOKS_CONFIG}[store]\nurl = "sqlite:${path}"\n`;
  const owed = await storeAfter("refund");
  for (const command of [["store", "check"], ["check", "--online"], ["serve"]]) {
    const { code, stdout, stderr } = await runJobgate(command, {
      files: { "jobgate.toml": configOf(owed) },
      from,
    });
    expect({ code, text: stdout + stderr }, command.join(" ")).toEqual({
      code: 1,
      text: expect.stringContaining(otherParts("refunds")),
    });
  }

  const file = openDriver(owed);
  file.exec("DELETE FROM refunds");
  file.close();
  for (const path of [owed, await storeAfter("keep")]) {
    const jobgate = await startJobgate({ config: configOf(path), from, listeners: ["runner"] });
    jobgate.kill();
    expect((await jobgate.exited).code).toBe(0);
    await jobgate.stop();
  }
});
