import { setTimeout as sleep } from "node:timers/promises";
import type { PaymentPayload } from "@x402/core/types";
import pLimit from "p-limit";
import { accounts } from "../test/helpers/accounts.ts";
import { startAnvil } from "../test/helpers/anvil.ts";
import { type Offer, requestOffer, signV2Payment, v2PaymentHeaders } from "../test/helpers/clients.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import { deployUsdc } from "../test/helpers/usdc.ts";
import { type PaymentTarget, startTree } from "./gateway.ts";
import { cpuSeconds, percentile } from "./load.ts";
import { startTimingProxy, type TimingProxy } from "./timing-proxy.ts";
import type { Tree } from "./trees.ts";

const PAYMENTS = 300;
const IN_FLIGHT = 64;
const MAX_ATTEMPTS = 60;
const RESEND_MS = 1_000;

/** Proxies in front of the facilitator and the chain's RPC. */
interface Outside {
  readonly facilitator: TimingProxy;
  readonly rpc: TimingProxy;
}

/** Measures paid requests that are confirmed on chain, beside the facilitator alone. */
export async function benchPaid(trees: readonly Tree[]): Promise<void> {
  const anvil = await startAnvil();
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000_000n);
  const official = await startFacilitator({ anvil });
  const facilitator = await startTimingProxy(official.url);
  const rpc = await startTimingProxy(anvil.rpcUrl);
  const payments = {
    facilitatorUrl: facilitator.url,
    chainId: anvil.chainId,
    asset: usdc.address,
    payTo: accounts.payTo.address,
    tokenName: usdc.name,
    tokenVersion: usdc.version,
    rpcUrl: rpc.url,
  };
  const one: object[] = [];
  const many: object[] = [];
  try {
    for (const tree of trees) await measure(tree, payments, { facilitator, rpc }, one, many);
  } finally {
    await rpc.stop();
    await facilitator.stop();
    await official.stop();
    await anvil.stop();
  }
  console.log(`\nPaid requests, one at a time, ${PAYMENTS} payments, confirmed on chain`);
  console.table(one);
  console.log(`\nPaid requests, ${IN_FLIGHT} in flight. Chain, facilitator and clients share the machine`);
  console.table(many);
}

async function measure(
  tree: Tree,
  payments: PaymentTarget,
  { facilitator, rpc }: Outside,
  one: object[],
  many: object[],
): Promise<void> {
  const { jobgate } = await startTree(tree, { payments });
  try {
    const url = `${jobgate.x402Url}/x402/jobs/1/0`;
    const offer = await requestOffer(url);
    const whole: number[] = [];
    const own: number[] = [];
    const cpuBefore = cpuSeconds(jobgate.pid);
    for (const payload of await sign(offer)) {
      facilitator.reset();
      rpc.reset();
      const sentAt = performance.now();
      await pay(url, payload);
      const took = performance.now() - sentAt;
      whole.push(took);
      own.push(took - facilitator.busyMs(rpc));
    }
    one.push({
      "": tree.name,
      "whole p50 ms": percentile(whole, 0.5).toFixed(1),
      "own p50 ms": percentile(own, 0.5).toFixed(1),
      "own p99 ms": percentile(own, 0.99).toFixed(1),
      "CPU ms": (((cpuSeconds(jobgate.pid) - cpuBefore) / PAYMENTS) * 1000).toFixed(1),
    });
    const requirements = offer.v2.accepts[0];
    const alone = await perSecond(await sign(offer), async (payload) => {
      const body = JSON.stringify({
        x402Version: 2,
        paymentPayload: payload,
        paymentRequirements: requirements,
      });
      for (const route of ["verify", "settle"]) {
        const response = await fetch(`${facilitator.url}/${route}`, { method: "POST", body });
        await response.arrayBuffer();
      }
    });
    const through = await perSecond(await sign(offer), (payload) => pay(url, payload));
    many.push({
      "": tree.name,
      "payments/s": Math.round(through),
      "facilitator alone": Math.round(alone),
      ratio: (through / alone).toFixed(2),
    });
  } finally {
    await jobgate.stop();
  }
}

/** Signs the payments beforehand, so that signing takes no part in what is measured. */
function sign(offer: Offer): Promise<PaymentPayload[]> {
  const signed = Array.from({ length: PAYMENTS }, () =>
    signV2Payment({ offer: offer.v2, account: accounts.payer }),
  );
  return Promise.all(signed.map(async (payment) => (await payment).payload));
}

async function perSecond(
  payloads: readonly PaymentPayload[],
  work: (payload: PaymentPayload) => Promise<void>,
): Promise<number> {
  const limit = pLimit(IN_FLIGHT);
  const startedAt = performance.now();
  await Promise.all(payloads.map((payload) => limit(() => work(payload))));
  return (payloads.length / (performance.now() - startedAt)) * 1000;
}

/** Pays as a client does: where jobgate cannot tell yet, the same request is sent again. */
async function pay(url: string, payload: PaymentPayload): Promise<void> {
  const headers = v2PaymentHeaders(payload);
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const response = await fetch(url, { method: "POST", body: "bench", headers });
    const text = await response.text();
    if (response.status === 202) return;
    if (response.status !== 503) throw new Error(`expected 202, got ${response.status} ${text}`);
    await sleep(RESEND_MS);
  }
  throw new Error(`a payment was not decided after ${MAX_ATTEMPTS} requests`);
}
