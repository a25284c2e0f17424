import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { privateKeyToAccount } from "viem/accounts";
import { expect, onTestFinished, test, vi } from "vitest";
import { PayerChannels } from "../../../src/parts/pay/channel.ts";
import { KnownTokens } from "../../../src/parts/pay/known-tokens.ts";
import { accounts } from "../../helpers/accounts.ts";

test("Payments from the same channels wait for each other, and not for a process that has ended", async () => {
  const state = await mkdtemp(join(tmpdir(), "jobgate-pay-"));
  vi.stubEnv("XDG_STATE_HOME", state);
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await rm(state, { recursive: true });
  });
  const signer = privateKeyToAccount(accounts.payer.privateKey);
  const channels = new PayerChannels({
    ...{ signer, deposit: "1", rpcUrl: undefined, tokens: new KnownTokens(), onDeposit: () => undefined },
  });
  const release = await channels.hold(1_000);
  await expect(channels.hold(200)).rejects.toThrow("Another process pays from the same channels");
  const next = channels.hold(10_000);
  await release();
  await (await next)();
  // No process has this ID.
  await writeFile(join(state, "jobgate", "channels", signer.address.toLowerCase(), "lock"), "4194305");
  await (await channels.hold(1_000))();
});
