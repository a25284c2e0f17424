/**
 * Makes docs/images/operator-*.png: `node --import tsx test/e2e/operator-page-screenshots.ts [folder]`.
 * Everything in them is real but the times of the payments, which are spread over a day.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { create } from "@bufbuild/protobuf";
import { ExtendRequestSchema } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { openPage, startBrowser } from "../helpers/browser.ts";
import { startRunner } from "../helpers/runner.ts";
import { OPERATOR_TOKEN, startOperatorScene } from "./operator-page-scene.ts";

const [, , folder = fileURLToPath(new URL("../../docs/images", import.meta.url))] = process.argv;
const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };
const PAYMENTS = 40;
const DAY_MS = 24 * 3_600_000;

await mkdir(folder, { recursive: true });
const browser = await startBrowser();
const scene = await startOperatorScene({
  async handle(call) {
    const body = Buffer.from(call.body).toString();
    if (body.startsWith("broken")) throw new Error("the model server answered 500");
    if (body.startsWith("slow")) await sleep(60_000);
    return { body: Buffer.from("a result") };
  },
  edit: (config) => config.replace("[job_pricing.1]", '[job_pricing.1]\n2 = "7600000000000000"'),
});

async function shoot(name: string, look: { dark: boolean; phone?: boolean; full?: boolean }) {
  const { page, close } = await openPage(browser, scene.gateway.jobgate.operatorUrl, {
    colorScheme: look.dark ? "dark" : "light",
    viewport: look.phone ? PHONE : DESKTOP,
    reducedMotion: "reduce",
  });
  await page.getByLabel("Token").waitFor();
  await page.getByLabel("Token").fill(OPERATOR_TOKEN);
  await page.keyboard.press("Enter");
  await page.getByText("Live", { exact: true }).waitFor();
  await flowSome();
  await page.screenshot({ path: join(folder, `operator-${name}.png`), fullPage: look.full ?? false });
  await close();
}

/** Something of everything, while a page watches. */
async function flowSome(): Promise<void> {
  for (let i = 0; i < 3; i++) await scene.pay(`work ${i}`);
  for (let i = 0; i < 4; i++) await scene.sendWebhook(`alert ${i}`);
  await scene.sendWebhook("broken alert");
  await scene.sendWebhook("slow alert");
  await sleep(1_500);
  for (const { callId, leaseToken } of scene.gateway.runner.calls.slice(-1)) {
    const progress = { percent: 60, text: "rendering page 3 of 5" };
    await scene.gateway.runner.extend(
      create(ExtendRequestSchema, { leases: [{ callId, leaseToken, progress }] }),
    );
  }
  await sleep(4_000);
}

for (let i = 0; i < PAYMENTS; i++) {
  const body = `work ${i}`;
  const job = i % 5 === 0 ? 2 : 0;
  await scene.gateway.send(await scene.gateway.sign({ body, job }), { body, job });
}
await scene.payIntoTheDark("work in the dark");
await scene.gateway.restart();
const database = openDriver(join(scene.gateway.jobgate.folder, "jobgate.db"));
database.exec(`UPDATE payments SET updated_at = updated_at - abs(random()) % ${DAY_MS}`);
database.exec("UPDATE payments SET created_at = created_at - 720000 WHERE state = 'intent'");
database.close();
const gpu = await startRunner({
  address: scene.gateway.jobgate.runnerAddress,
  subscriber: "gpu-2",
  maxInFlight: 4,
  jobIds: [77n],
});

await shoot("light", { dark: false, full: true });
await shoot("dark", { dark: true });
await shoot("phone", { dark: true, phone: true });

await gpu.stop();
await browser.close();
await scene.stop();
