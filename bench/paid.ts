import { localSettler } from "../test/e2e/local-facilitator.ts";
import { accounts } from "../test/helpers/accounts.ts";
import { startAnvil } from "../test/helpers/anvil.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import { deployUsdc } from "../test/helpers/usdc.ts";
import { type PaymentTarget, startTree } from "./gateway.ts";
import { cpuSeconds, percentile } from "./load.ts";
import { agent, askOffer, exchange, type Purchase, pay, perSecond, signPayments } from "./payments.ts";
import { startTimingProxy, type TimingProxy } from "./timing-proxy.ts";
import type { Tree } from "./trees.ts";

const PAYMENTS = 300;
/** Payments before those that are measured, for V8 to compile what they run. */
const WARM_UP = 60;
const IN_FLIGHT = 64;

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
    const purchase = jobOf(jobgate.x402Url);
    const offer = await askOffer(purchase);
    for (const payload of await signPayments(offer, WARM_UP)) await pay(purchase, payload);
    const whole: number[] = [];
    const own: number[] = [];
    const payloads = await signPayments(offer, PAYMENTS);
    const cpuBefore = cpuSeconds(jobgate.pid);
    for (const payload of payloads) {
      facilitator.reset();
      rpc.reset();
      const sentAt = performance.now();
      await pay(purchase, payload);
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
    const purchase = jobOf(jobgate.x402Url);
    const offer = await askOffer(purchase);
    await perSecond(await signPayments(offer, WARM_UP), IN_FLIGHT, (payload) => pay(purchase, payload));
    const requirements = offer.accepts[0];
    const alone = await perSecond(await signPayments(offer, PAYMENTS), IN_FLIGHT, async (payload) => {
      const body = JSON.stringify({
        x402Version: 2,
        paymentPayload: payload,
        paymentRequirements: requirements,
      });
      for (const route of ["verify", "settle"])
        await exchange(`${payments.facilitatorUrl}/${route}`, "POST", body);
    });
    const payloads = await signPayments(offer, PAYMENTS);
    const cpuBefore = cpuSeconds(jobgate.pid);
    const through = await perSecond(payloads, IN_FLIGHT, (payload) => pay(purchase, payload));
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

const jobOf = (url: string): Purchase => ({ url: `${url}/x402/jobs/1/0`, method: "POST", status: 202 });
