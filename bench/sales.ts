import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { PaymentPayload } from "@x402/core/types";
import type { Hex } from "viem";
import { processEnded, spawnTethered } from "../src/node/tethered-process.ts";
import { run } from "../test/e2e/workshop.ts";
import type { Token } from "../test/helpers/usdc.ts";
import { type PaymentTarget, startTree } from "./gateway.ts";
import { cpuSeconds } from "./load.ts";
import { askOffer, type Purchase, pay, perSecond, send, signPayments } from "./payments.ts";
import type { Tree } from "./trees.ts";

const TURNS = 3;
const SALES = 100;
const WARM_UP = 40;
/** Sales that are under way at each kill -9, at which this many have been answered. */
const KILLED_AMONG = 16;
const ANSWERED_AT_KILL = 3;
const KILLS = 3;
const RESEND_MS = 250;
const RESEND_FOR_MS = 30_000;
const EXPRESS = fileURLToPath(new URL("express", import.meta.url));

/** One way to sell GET /paid of the Express app. */
interface Seller {
  readonly url: string;
  readonly pid: number;
  kill(): Promise<void>;
}

/** A seller that can be started again with what it stored. */
interface Contestant {
  readonly name: string;
  start(): Promise<Seller>;
}

/** Measures sales of one Express app through the official middleware and through each tree, also when they are killed. */
export async function benchSales(
  trees: readonly Tree[],
  payments: PaymentTarget,
  usdc: Token,
  sellApi: (config: string, apiUrl: string) => string,
): Promise<void> {
  if (!existsSync(join(EXPRESS, "node_modules/@x402/express/package.json")))
    await run("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], EXPRESS);
  const app = await startApp();
  const folders = await Promise.all(trees.map(() => mkdtemp(join(tmpdir(), "jobgate-sales-"))));
  const terms = termsOf(payments);
  try {
    const contestants: Contestant[] = [
      { name: "@x402/express", start: () => startApp(terms) },
      ...trees.map((tree, i) => ({
        name: tree.name,
        async start(): Promise<Seller> {
          const options = {
            payments,
            edit: (config: string) => sellApi(config, app.url),
            folder: folders[i] ?? "",
          };
          const { jobgate } = await startTree(tree, options);
          const kill = async () => {
            jobgate.kill("SIGKILL");
            await jobgate.exited;
          };
          return { url: `${jobgate.x402Url}/paid`, pid: jobgate.pid, kill };
        },
      })),
    ];
    const rates = await measureRates(contestants);
    const rows: object[] = [];
    for (const [i, contestant] of contestants.entries()) {
      const { settled, lost } = await killInMidSale(contestant, usdc);
      const { rate, cpuMs } = rates[i] ?? { rate: Number.NaN, cpuMs: Number.NaN };
      rows.push({
        "": contestant.name,
        "sales/s": Math.round(rate),
        "of @x402/express": (rate / (rates[0]?.rate ?? Number.NaN)).toFixed(2),
        "CPU ms": cpuMs.toFixed(1),
        "settled at kill -9": settled,
        "of these lost": lost,
      });
    }
    console.log(`\nSales of GET /paid of an Express app, ${KILLED_AMONG} in flight, ${KILLS} kills`);
    console.table(rows);
  } finally {
    await app.kill();
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
  }
}

function termsOf({ facilitatorUrl, chainId, asset, payTo, tokenName, tokenVersion }: PaymentTarget): string {
  const extra = { name: tokenName, version: tokenVersion };
  const price = { asset, amount: "3200", extra };
  return JSON.stringify({ facilitatorUrl, network: `eip155:${chainId}`, payTo, price });
}

/** @param terms those of the middleware; default: the app sells nothing */
async function startApp(terms?: string): Promise<Seller> {
  const args = [join(EXPRESS, "app.mjs"), ...(terms === undefined ? [] : [terms])];
  const child = spawnTethered({ command: process.execPath, args });
  child.stderr.resume();
  const lines = createInterface({ input: child.stdout });
  const { value: url } = await lines[Symbol.asyncIterator]().next();
  child.stdout.resume();
  return {
    url: terms === undefined ? url : `${url}/paid`,
    pid: child.pid ?? 0,
    async kill() {
      child.kill("SIGKILL");
      await processEnded(child);
    },
  };
}

/** Lets the contestants sell in turns, so that a machine whose speed drifts treats them alike. */
async function measureRates(contestants: readonly Contestant[]) {
  const sellers = await Promise.all(contestants.map(({ start }) => start()));
  try {
    const rates = sellers.map(() => ({ rate: 0, cpuMs: 0 }));
    for (let turn = -1; turn < TURNS; turn += 1) {
      for (const [i, { url, pid }] of sellers.entries()) {
        const payloads = await signPayments(await askOffer(saleAt(url)), turn < 0 ? WARM_UP : SALES);
        const cpuBefore = cpuSeconds(pid);
        const rate = await perSecond(payloads, KILLED_AMONG, (payload) => pay(saleAt(url), payload));
        const sum = rates[i];
        if (turn < 0 || sum === undefined) continue;
        sum.rate += rate / TURNS;
        sum.cpuMs += ((cpuSeconds(pid) - cpuBefore) * 1_000) / (SALES * TURNS);
      }
    }
    return rates;
  } finally {
    await Promise.all(sellers.map(({ kill }) => kill()));
  }
}

/** Kills a seller in mid-sale, starts it again, and sends the same payments until each has a final answer. */
async function killInMidSale({ start }: Contestant, usdc: Token) {
  let settled = 0;
  let lost = 0;
  for (let round = 0; round < KILLS; round += 1) {
    const first = await start();
    const payloads = await signPayments(await askOffer(saleAt(first.url)), KILLED_AMONG);
    let answered = 0;
    const hasAnswer = await Promise.all(
      payloads.map(async (payload) => {
        const status = await buyOnce(first.url, payload);
        if (status === 200 && ++answered === ANSWERED_AT_KILL) await first.kill();
        return status === 200;
      }),
    );
    const second = await start();
    for (const [i, payload] of payloads.entries()) hasAnswer[i] ||= await resend(second.url, payload);
    for (const [i, { payload }] of payloads.entries()) {
      const { from, nonce } = payload.authorization as { readonly from: Hex; readonly nonce: Hex };
      if (!(await usdc.authorizationState(from, nonce))) continue;
      settled += 1;
      if (!hasAnswer[i]) lost += 1;
    }
    await second.kill();
  }
  return { settled, lost };
}

const saleAt = (url: string): Purchase => ({ url, method: "GET", status: 200 });

const buyOnce = (url: string, payload: PaymentPayload) =>
  send(saleAt(url), payload).then(
    ({ status }) => status,
    () => undefined,
  );

/** @returns true once the payment has its answer */
async function resend(url: string, payload: PaymentPayload): Promise<boolean> {
  const endsAt = performance.now() + RESEND_FOR_MS;
  for (;;) {
    const status = await buyOnce(url, payload);
    if (status === 200) return true;
    // Any other says that no other answer will come.
    if ((status !== 503 && status !== 202) || performance.now() > endsAt) return false;
    await sleep(RESEND_MS);
  }
}
