/**
 * Makes docs/images/operator-*.png: `node --import tsx test/e2e/operator-page-screenshots.ts [folder]`.
 * Everything in them is real but the activity, and the times of the revenue, which are spread over a day.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { create } from "@bufbuild/protobuf";
import type { Request } from "playwright-core";
import { ExtendRequestSchema } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { openPage, startBrowser } from "../helpers/browser.ts";
import { startRunner } from "../helpers/runner.ts";
import { until } from "../helpers/until.ts";
import { OPERATOR_TOKEN, startOperatorScene } from "./operator-page-scene.ts";

const [, , folder = fileURLToPath(new URL("../../docs/images", import.meta.url))] = process.argv;
const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };
const PAYMENTS = 40;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const BUCKET_MS = 600_000;
/** Longer than all pictures take. */
const SLOW_JOB_MS = 60_000;

await mkdir(folder, { recursive: true });
const browser = await startBrowser();
const scene = await startOperatorScene({
  async handle(call) {
    const body = Buffer.from(call.body).toString();
    if (body.startsWith("broken")) throw new Error("the model server answered 500");
    if (body.startsWith("slow")) await sleep(SLOW_JOB_MS);
    return { body: Buffer.from("a result") };
  },
  edit: (config) => config.replace("[job_pricing.1]", '[job_pricing.1]\n2 = "7600000000000000"'),
});

interface Look {
  readonly dark?: boolean;
  readonly phone?: boolean;
  readonly view?: string;
}

async function shoot(name: string, { dark = false, phone = false, view = "" }: Look) {
  const { page, close } = await openPage(browser, `${scene.gateway.jobgate.operatorUrl}/#/${view}`, {
    colorScheme: dark ? "dark" : "light",
    viewport: phone ? PHONE : DESKTOP,
    reducedMotion: "reduce",
  });
  const unanswered = new Map<Request, string>();
  page.on("request", (request) => void unanswered.set(request, request.url()));
  page.on("requestfinished", (request) => void unanswered.delete(request));
  page.on("requestfailed", (request) => void unanswered.delete(request));
  await page.route("**/GetActivity", (route) => route.fulfill({ json: { activity: busyDay() } }));
  await page.route("**/GetRevenue", async (route) => {
    const { revenue } = (await (await route.fetch()).json()) as { revenue: { amount: string }[] };
    await route.fulfill({ json: { revenue: revenue.flatMap(overADay) } });
  });
  await page.getByLabel("Token").fill(OPERATOR_TOKEN);
  await page.keyboard.press("Enter");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.locator("main :is(table, .call)").first().waitFor();
  await until(() => [...unanswered.values()].every((url) => url.endsWith("/Tail")));
  await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
  await page.screenshot({ path: join(folder, `operator-${name}.png`) });
  await close();
}

/** Counts of a day, as of a process that has run for one. */
function busyDay() {
  const last = Math.floor(Date.now() / BUCKET_MS);
  return Array.from({ length: DAY_MS / BUCKET_MS }, (_, index) => {
    const accepted = Math.round(45 + 32 * Math.sin(index / 23) + 9 * Math.sin(index / 2));
    return {
      from: new Date((last - DAY_MS / BUCKET_MS + 1 + index) * BUCKET_MS).toISOString(),
      accepted: String(accepted),
      acked: String(Math.max(0, accepted - 4)),
      dead_lettered: String(index % 29 === 0 ? 3 : 0),
      refused: String(index % 11 === 0 ? 6 : 1),
    };
  });
}

/** The revenue of one hour, as if it had come in over a day. */
function overADay(revenue: { amount: string }) {
  const hour = Math.floor(Date.now() / HOUR_MS);
  const shares = Array.from({ length: 24 }, (_, index) => 1 + Math.sin(index / 4) ** 2);
  const all = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share, index) => ({
    ...revenue,
    from: new Date((hour - 23 + index) * HOUR_MS).toISOString(),
    amount: String(Math.round((Number(revenue.amount) * share) / all)),
    payments: String(Math.round(share)),
  }));
}

/** No JobCall waits; that many are at runners. */
async function areAtRunners(count: number): Promise<boolean> {
  const { ready, leased } = (await scene.gateway.journal.totals()).calls;
  return ready === 0 && leased === count;
}

/** Something of everything. */
async function flowSome(): Promise<void> {
  for (let i = 0; i < 3; i++) await scene.pay(`work ${i}`);
  for (let i = 0; i < 4; i++) await scene.sendWebhook(`alert ${i}`);
  for (let i = 0; i < 3; i++) await scene.sendWebhook("broken alert");
  await scene.sendWebhook("slow alert");
  await until(() => areAtRunners(1));
  const { callId, leaseToken } = await until(() => scene.gateway.jobsWith("slow alert")[0]);
  const progress = { percent: 60, text: "rendering page 3 of 5" };
  await scene.gateway.runner.extend(
    create(ExtendRequestSchema, { leases: [{ callId, leaseToken, progress }] }),
  );
}

for (let i = 0; i < PAYMENTS; i++) {
  const body = `work ${i}`;
  const job = i % 5 === 0 ? 2 : 0;
  await scene.gateway.send(await scene.gateway.sign({ body, job }), { body, job });
}
await scene.payIntoTheDark("work in the dark");
await scene.gateway.restart();
const database = openDriver(join(scene.gateway.jobgate.folder, "jobgate.db"));
database.exec("UPDATE payments SET created_at = created_at - 720000 WHERE state = 'intent'");
database.close();
const gpu = await startRunner({
  address: scene.gateway.jobgate.runnerAddress,
  subscriber: "gpu-2",
  maxInFlight: 4,
  jobIds: [77n],
});

await flowSome();
const callId = await scene.pay("the last one");
await until(() => areAtRunners(1));

await shoot("light", {});
await shoot("call", { view: `calls/${callId}` });
await shoot("dead-letters", { view: "dead-letters", dark: true });
await shoot("endpoints", { view: "endpoints" });
await shoot("dark", { dark: true });
await shoot("phone", { dark: true, phone: true });

await gpu.stop();
await browser.close();
await scene.stop();
// The borrowed chain goes on.
process.exit();
