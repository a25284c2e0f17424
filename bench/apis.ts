import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { accounts } from "../test/helpers/accounts.ts";
import { startAnvil } from "../test/helpers/anvil.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import { deployUsdc } from "../test/helpers/usdc.ts";
import { CONNECTIONS } from "./accepts.ts";
import { type PaymentTarget, startTree } from "./gateway.ts";
import { type Contestant, compete, loadRow, percentile, withBaseline } from "./load.ts";
import { agent, askOffer, type Purchase, pay, signPayments } from "./payments.ts";
import { benchSales } from "./sales.ts";
import { benchStreams } from "./streams.ts";
import { startTimingProxy, type TimingProxy } from "./timing-proxy.ts";
import type { Tree } from "./trees.ts";

const PAYMENTS = 100;
const WARM_UP = 40;
const SYNCS = 50;
const BODY = "x".repeat(256);

/**
 * Measures requests that pass to an API: free ones beside a bare proxy, paid ones beside a paid job, sales beside the official
 * middleware, and streams beside the API itself.
 */
export async function benchApis(trees: readonly Tree[]): Promise<void> {
  await withBaseline("bare-http", async ([apiUrl = ""], apiPid) => {
    await measureFree(trees, apiUrl, apiPid);
    await measureSales(trees, apiUrl);
  });
}

/** The configuration of an API with a free route. */
const serveApi = (config: string, apiUrl: string) => `${config}
[[apis]]
name = "bench"
url = "${apiUrl}"
concurrency = 256
free = ["POST /free/{path...}"]
free_rate = 1_000_000
`;

/** The same with a route that is sold. */
const sellApi = (config: string, apiUrl: string) => `${serveApi(
  config.replace("[x402]\n", "[x402]\nmax_open_per_payer = 100_000\n"),
  apiUrl,
)}
[[jobs]]
route = "GET /paid"
api = "bench"
price_wei = "1000000000000000"
`;

async function measureFree(trees: readonly Tree[], apiUrl: string, apiPid: number): Promise<void> {
  const edit = (config: string) => serveApi(config, apiUrl);
  const gateways = await Promise.all(trees.map((tree) => startTree(tree, { edit })));
  const contestant = (name: string, pid: number, url: string): Contestant => ({
    ...{ name, pids: [pid] },
    target: { urls: [`${url}/free/a`], body: BODY, status: 202, connections: CONNECTIONS },
  });
  try {
    const measure = async ([proxyUrl = ""]: readonly string[], proxyPid: number) => {
      const contestants = [
        contestant("node:http and undici", proxyPid, proxyUrl),
        contestant("the API itself", apiPid, apiUrl),
        ...gateways.map(({ name, jobgate }) =>
          contestant(`${name}, free route`, jobgate.pid, jobgate.x402Url),
        ),
      ];
      const results = await compete(contestants);
      const proxyMicros = results[0]?.cpuMicros ?? Number.NaN;
      console.log(`\nFree requests to an API, ${BODY.length} B, ${CONNECTIONS} in flight`);
      console.table(
        results.map((result, i) => ({
          "": contestants[i]?.name,
          ...loadRow(result),
          "CPU of the proxy": (result.cpuMicros / proxyMicros).toFixed(2),
        })),
      );
    };
    await withBaseline("forward", measure, [apiUrl]);
  } finally {
    await Promise.all(gateways.map(({ jobgate }) => jobgate.stop()));
  }
}

async function measureSales(trees: readonly Tree[], apiUrl: string): Promise<void> {
  const anvil = await startAnvil();
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000_000n);
  const facilitator = await startFacilitator({ anvil });
  const payments: PaymentTarget = {
    ...{ facilitatorUrl: facilitator.url, rpcUrl: anvil.rpcUrl, chainId: anvil.chainId, asset: usdc.address },
    ...{ payTo: accounts.payTo.address, tokenName: usdc.name, tokenVersion: usdc.version },
  };
  try {
    await measureOwnTime(trees, payments, apiUrl);
    await benchSales(trees, payments, usdc, sellApi);
    await benchStreams(trees, payments);
  } finally {
    agent.destroy();
    await facilitator.stop();
    await anvil.stop();
  }
}

/** Own time is the time of a purchase in which neither facilitator, chain nor API had a request under way. */
async function measureOwnTime(
  trees: readonly Tree[],
  payments: PaymentTarget,
  apiUrl: string,
): Promise<void> {
  const outside = await Promise.all(
    [payments.facilitatorUrl, payments.rpcUrl ?? "", apiUrl].map((url) => startTimingProxy(url)),
  );
  const [facilitatorUrl = "", rpcUrl = "", url = ""] = outside.map((proxy) => proxy.url);
  const rows: object[] = [];
  try {
    for (const tree of trees) {
      const edit = (config: string) => sellApi(config, url);
      const { jobgate } = await startTree(tree, { payments: { ...payments, facilitatorUrl, rpcUrl }, edit });
      try {
        const times = await buyInTurns(outside, [
          { url: `${jobgate.x402Url}/x402/jobs/1/0`, method: "POST", status: 202 },
          { url: `${jobgate.x402Url}/paid`, method: "GET", status: 202 },
        ]);
        const above = (share: number, i: number) =>
          (percentile(times[i] ?? [], share) - percentile(times[0] ?? [], share)).toFixed(1);
        for (const [i, name] of ["a paid job", "a paid GET of an API"].entries())
          rows.push({
            "": `${tree.name}, ${name}`,
            "own p10 ms": percentile(times[i] ?? [], 0.1).toFixed(1),
            "own p50 ms": percentile(times[i] ?? [], 0.5).toFixed(1),
            "own p99 ms": percentile(times[i] ?? [], 0.99).toFixed(1),
            "p10 above the job": above(0.1, i),
            "p50 above the job": above(0.5, i),
          });
      } finally {
        await jobgate.stop();
      }
    }
  } finally {
    await Promise.all(outside.map((proxy) => proxy.stop()));
  }
  const syncMs = await timeSync();
  console.log(
    `\nPurchases one at a time, ${PAYMENTS} of each in turns, confirmed on chain. One sync takes ${syncMs.toFixed(1)} ms`,
  );
  console.table(rows);
}

/** Buys each in turn, so that a machine whose speed drifts treats them alike. @returns own times of each */
async function buyInTurns(
  outside: readonly TimingProxy[],
  purchases: readonly Purchase[],
): Promise<number[][]> {
  const [first, ...others] = outside as [TimingProxy, ...TimingProxy[]];
  const signed = await Promise.all(
    purchases.map(async (purchase) => signPayments(await askOffer(purchase), WARM_UP + PAYMENTS)),
  );
  const own: number[][] = purchases.map(() => []);
  for (let turn = 0; turn < WARM_UP + PAYMENTS; turn += 1)
    for (const [i, purchase] of purchases.entries()) {
      const payload = signed[i]?.[turn];
      if (payload === undefined) continue;
      for (const proxy of outside) proxy.reset();
      const sentAt = performance.now();
      await pay(purchase, payload);
      const took = performance.now() - sentAt;
      if (turn >= WARM_UP) own[i]?.push(took - first.busyMs(...others));
    }
  return own;
}

/** Milliseconds that one write with fdatasync takes on a disk that was idle. */
async function timeSync(): Promise<number> {
  const path = join(tmpdir(), `jobgate-sync-${process.pid}`);
  const file = openSync(path, "w");
  const times: number[] = [];
  for (let i = 0; i < SYNCS; i += 1) {
    await sleep(10);
    const startedAt = performance.now();
    writeSync(file, BODY);
    fdatasyncSync(file);
    times.push(performance.now() - startedAt);
  }
  closeSync(file);
  rmSync(path);
  return percentile(times, 0.5);
}
