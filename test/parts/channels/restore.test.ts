import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { inspectSqlite } from "../../../src/store/sqlite/inspect.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { channelClient } from "../../helpers/channels.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import type { Jobgate } from "../../helpers/jobgate-process.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import {
  channelOf,
  KEPT,
  newPayer,
  PRICE,
  readBought,
  startChannelParts,
  startChannelShop,
  untilOffered,
} from "./harness.ts";

const parts = startBeforeAll(startChannelParts);

it("After a restore no channel takes vouchers until the operator resumes them, and a voucher that proves lost ones is an alert", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-channels-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let config = "";
  let life: Jobgate | undefined;
  const shop = await startChannelShop(parts, {
    keys: "claim_every_secs = 3600",
    async start(options) {
      config = options.config;
      life = await startEmbeddedJobgate({ config, folder });
      return life;
    },
  });
  const { fetch } = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
  const bought = await shop.buy(fetch, "one", KEPT);
  await until(() => shop.runner.calls.length === 1);
  const copy = join(folder, "copy.db");
  const inspection = inspectSqlite(join(folder, "jobgate.db"));
  await inspection.backup(copy);
  await inspection.close();
  // These two are not in the copy.
  await shop.buy(fetch, "two", KEPT);
  await shop.buy(fetch, "three", KEPT);
  await shop.runner.stop();
  await shop.jobgate.stop();

  const restored = await mkdtemp(join(tmpdir(), "jobgate-channels-"));
  onTestFinished(() => rm(restored, { recursive: true, force: true }));
  await copyFile(copy, join(restored, "jobgate.db"));
  const jobgate = await startEmbeddedJobgate({ config, folder: restored });
  const runner = await startRunner({ address: jobgate.runnerAddress });
  onTestFinished(async () => {
    await runner.stop();
    await jobgate.stop();
    await shop.facilitator.stop();
  });
  const url = `${jobgate.x402Url}/x402/jobs/1/${KEPT}`;
  const buy = async (body: string) => readBought(await fetch(url, { method: "POST", body }));
  await untilOffered(url);
  expect(await buy("four")).toMatchObject({
    status: 402,
    error: expect.stringMatching(
      /^The seller has stopped the channel, .*\(invalid_batch_settlement_evm_channel_busy\)$/,
    ),
  });
  expect(jobgate.logs.join("\n")).toContain("vouchers of a channel were lost");

  const operator = (...args: string[]) => {
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", "");
    onTestFinished(() => void vi.unstubAllEnvs());
    return runHere("channels", ...args, "--target", jobgate.operatorUrl);
  };
  expect((await operator("list", "--state", "stopped")).stdout).toContain(channelOf(bought));
  expect(await operator("resume", "--note", "restored")).toMatchObject({
    code: 0,
    stdout: "1 channel resumed\n",
  });
  expect(await operator("resume", "--note", "again")).toMatchObject({ stdout: "0 channels resumed\n" });
  // The client signs again from the sums of the copy.
  expect(await buy("five")).toMatchObject({
    status: 202,
    settlement: { extra: { channelState: { chargedCumulativeAmount: String(2n * PRICE) } } },
  });
});
