import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { claimOne, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const CONFIG = `[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
`;
const WARNING = /"refunds":1,.*"refunds wait: \[x402\.refunds\] was missing when jobgate started"/;

test("A jobgate without [x402.refunds] counts the refunds that wait in its log, at the start and at a reload", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-refunds-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const start = async () => {
    let store: Store | undefined;
    const jobgate = await startEmbeddedJobgate({
      config: CONFIG,
      folder,
      wrapStore: (opened) => {
        store = opened;
        return opened;
      },
    });
    const warnings = () => jobgate.logs.filter((line) => WARNING.test(line)).length;
    return { ...jobgate, store: store as Store, warnings };
  };

  const first = await start();
  const intent = paymentIntent(1, { onFailure: "refund" });
  await first.store.beginPayment(intent, paidCall());
  await first.store.settlePayment(intent.key, "{}");
  await first.store.fail(await claimOne(first.store), "no good");
  expect(first.warnings()).toBe(0);
  await first.reload(CONFIG);
  await vi.waitFor(() => expect(first.warnings()).toBe(1));
  await first.stop();

  const second = await start();
  onTestFinished(async () => void (await second.stop()));
  await vi.waitFor(() => expect(second.warnings()).toBe(1));
});
