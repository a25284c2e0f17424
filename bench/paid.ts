import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { PaymentPayload } from "@x402/core/types";
import pLimit from "p-limit";
import { localSettler } from "../test/e2e/local-facilitator.ts";
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
/** Payments before those that are measured, for V8 to compile what they run. */
const WARM_UP = 60;
const IN_FLIGHT = 64;
const MAX_ATTEMPTS = 60;
const RESEND_MS = 1_000;

/** Keeps connections, and costs less of a payment's time than fetch. */
export const agent = new Agent({ keepAlive: true });

/** The facilitator and the chain's RPC, behind proxies that time their requests. */
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
    facilitatorUrl: official.url,
    chainId: anvil.chainId,
    asset: usdc.address,
    payTo: accounts.payTo.address,
    tokenName: usdc.name,
    tokenVersion: usdc.version,
    rpcUrl: anvil.rpcUrl,
  };
  const timed = { ...payments, facilitatorUrl: facilitator.url, rpcUrl: rpc.url };
  const one: object[] = [];
  const many: object[] = [];
  try {
    for (const tree of trees) {
      const oneKey = await localSettler({ anvil, rpcUrl: rpc.url });
      one.push(await measureOne(tree.name, tree, timed, { facilitator, rpc }));
      if (isThis(tree))
        one.push(await measureOne("settles itself", tree, { ...timed, ...oneKey }, { facilitator, rpc }));
    }
    for (const tree of trees) {
      many.push(await measureMany(tree.name, tree, payments));
      for (const keys of isThis(tree) ? [1, 4] : []) {
        const settler = await localSettler({ anvil, keys });
        many.push(await measureMany(`settles itself, keys: ${keys}`, tree, { ...payments, ...settler }));
      }
    }
  } finally {
    agent.destroy();
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

/** Older trees cannot settle themselves. */
function isThis({ folder }: Tree): boolean {
  return folder === undefined;
}

/** Own time is the time of a payment during which neither the facilitator nor the chain had a request under way. */
async function measureOne(
  name: string,
  tree: Tree,
  payments: PaymentTarget,
  { facilitator, rpc }: Outside,
): Promise<object> {
  const { jobgate } = await startTree(tree, { payments });
  try {
    const url = `${jobgate.x402Url}/x402/jobs/1/0`;
    const offer = await requestOffer(url);
    for (const payload of await sign(offer, WARM_UP)) await pay(url, payload);
    const whole: number[] = [];
    const own: number[] = [];
    const payloads = await sign(offer, PAYMENTS);
    const cpuBefore = cpuSeconds(jobgate.pid);
    for (const payload of payloads) {
      facilitator.reset();
      rpc.reset();
      const sentAt = performance.now();
      await pay(url, payload);
      const took = performance.now() - sentAt;
      whole.push(took);
      own.push(took - facilitator.busyMs(rpc));
    }
    return {
      "": name,
      "whole p50 ms": percentile(whole, 0.5).toFixed(1),
      "own p50 ms": percentile(own, 0.5).toFixed(1),
      "own p99 ms": percentile(own, 0.99).toFixed(1),
      "CPU ms": (((cpuSeconds(jobgate.pid) - cpuBefore) / PAYMENTS) * 1000).toFixed(1),
    };
  } finally {
    await jobgate.stop();
  }
}

/** Without the proxies, whose work would count as jobgate's. */
async function measureMany(name: string, tree: Tree, payments: PaymentTarget): Promise<object> {
  const { jobgate } = await startTree(tree, { payments });
  try {
    const url = `${jobgate.x402Url}/x402/jobs/1/0`;
    const offer = await requestOffer(url);
    await perSecond(await sign(offer, WARM_UP), (payload) => pay(url, payload));
    const requirements = offer.v2.accepts[0];
    const alone = await perSecond(await sign(offer, PAYMENTS), async (payload) => {
      const body = JSON.stringify({
        x402Version: 2,
        paymentPayload: payload,
        paymentRequirements: requirements,
      });
      for (const route of ["verify", "settle"]) await post(`${payments.facilitatorUrl}/${route}`, body);
    });
    const payloads = await sign(offer, PAYMENTS);
    const cpuBefore = cpuSeconds(jobgate.pid);
    const through = await perSecond(payloads, (payload) => pay(url, payload));
    const cpuMs = ((cpuSeconds(jobgate.pid) - cpuBefore) / PAYMENTS) * 1000;
    return {
      "": name,
      "CPU ms": cpuMs.toFixed(1),
      "payments/s": Math.round(through),
      "facilitator alone": Math.round(alone),
      ratio: (through / alone).toFixed(2),
    };
  } finally {
    await jobgate.stop();
  }
}

/** Signs the payments beforehand, so that signing takes no part in what is measured. */
function sign(offer: Offer, count: number): Promise<PaymentPayload[]> {
  const signed = Array.from({ length: count }, () =>
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
export async function pay(url: string, payload: PaymentPayload): Promise<void> {
  const headers = v2PaymentHeaders(payload);
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const answer = await post(url, "bench", headers);
    if (answer.status === 202) return;
    if (answer.status !== 503) throw new Error(`expected 202, got ${answer.status} ${answer.body}`);
    await sleep(RESEND_MS);
  }
  throw new Error(`a payment was not decided after ${MAX_ATTEMPTS} requests`);
}

function post(
  url: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number | undefined; readonly body: string }> {
  return new Promise((resolve, reject) => {
    request(url, { method: "POST", agent, headers }, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode, body }), reject);
    })
      .on("error", reject)
      .end(body);
  });
}
