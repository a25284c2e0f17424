import type { PaymentPayload } from "@x402/core/types";
import { localSettler } from "../test/e2e/local-facilitator.ts";
import { accounts } from "../test/helpers/accounts.ts";
import { startAnvil } from "../test/helpers/anvil.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import type { Jobgate } from "../test/helpers/jobgate-process.ts";
import { deployUsdc } from "../test/helpers/usdc.ts";
import { type GatewayOptions, type PaymentTarget, startTree } from "./gateway.ts";
import { cpuSeconds, percentile } from "./load.ts";
import { agent, askOffer, exchange, type Purchase, pay, perSecond, signPayments } from "./payments.ts";
import type { Figure } from "./summary.ts";
import { startTimingProxy, type TimingProxy } from "./timing-proxy.ts";
import type { Tree } from "./trees.ts";

const PAYMENTS = 300;
/** Payments before those that are measured, for V8 to compile what they run: after 150, that still takes a fifth of the CPU. */
const WARM_UP = 300;
/** Payments that are signed before some are made: on Solana they end within a minute. */
const SIGNED_AT_ONCE = 50;
const IN_FLIGHT = 64;
/** Turns of the facilitator alone and the gateway, and the payments of each. */
const ROUNDS = 3;
const ROUND_PAYMENTS = 128;
/** Numbers of keys with which a gateway settles itself. */
const OWN_KEYS = [1, 4];

/** The facilitator and the chain's RPC, behind proxies that time their requests. */
export interface Outside {
  readonly facilitator: TimingProxy;
  readonly rpc: TimingProxy;
}

/** A gateway, and what signs payments for its job. */
interface Sale {
  readonly jobgate: Jobgate;
  sign(count: number): Promise<readonly PaymentPayload[]>;
}

/** Milliseconds of a payment. */
export interface Figures {
  readonly whole: number;
  readonly own: number;
  readonly ownLate: number;
  readonly cpu: number;
}

/** A chain with a funded payer and the official facilitator. */
export async function startEvm() {
  const anvil = await startAnvil();
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000_000n);
  const official = await startFacilitator({ anvil });
  const outside: Outside = {
    facilitator: await startTimingProxy(official.url),
    rpc: await startTimingProxy(anvil.rpcUrl),
  };
  const payments = {
    facilitatorUrl: official.url,
    chainId: anvil.chainId,
    asset: usdc.address,
    payTo: accounts.payTo.address,
    tokenName: usdc.name,
    tokenVersion: usdc.version,
    rpcUrl: anvil.rpcUrl,
  };
  const timed = { ...payments, facilitatorUrl: outside.facilitator.url, rpcUrl: outside.rpc.url };
  return {
    anvil,
    payments,
    /**
     * @param settlesItself with a key of its own, in place of the facilitator
     * @param storeOf names the store
     */
    async measureOne(tree: Tree, settlesItself: boolean, storeOf: Pick<GatewayOptions, "store"> = {}) {
      const key = settlesItself ? await localSettler({ anvil, rpcUrl: outside.rpc.url }) : {};
      const { jobgate } = await startTree(tree, { payments: { ...timed, ...key }, ...storeOf });
      try {
        const offer = await askOffer(jobOf(jobgate.x402Url));
        return await measureOne({ jobgate, sign: (count) => signPayments(offer, count) }, outside);
      } finally {
        await jobgate.stop();
      }
    },
    async stop() {
      await outside.rpc.stop();
      await outside.facilitator.stop();
      await official.stop();
      await anvil.stop();
    },
  };
}

/** Measures paid requests that are confirmed on chain, beside the facilitator alone. */
export async function benchPaid(trees: readonly Tree[]): Promise<readonly Figure[]> {
  const evm = await startEvm();
  const { anvil, payments } = evm;
  const one: object[] = [];
  const many: Awaited<ReturnType<typeof measureMany>>[] = [];
  try {
    for (const tree of trees) {
      one.push(rowOf(tree.name, await evm.measureOne(tree, false)));
      if (isThis(tree)) one.push(rowOf("settles itself", await evm.measureOne(tree, true)));
    }
    for (const tree of trees) {
      many.push(await measureMany(tree.name, tree, payments));
      for (const keys of isThis(tree) ? OWN_KEYS : []) {
        const settler = await localSettler({ anvil, keys });
        many.push(await measureMany(`settles itself, keys: ${keys}`, tree, { ...payments, ...settler }));
      }
    }
  } finally {
    agent.destroy();
    await evm.stop();
  }
  console.log(`\nPaid requests, one at a time, ${PAYMENTS} payments, confirmed on chain`);
  console.table(one);
  console.log(`\nPaid requests, ${IN_FLIGHT} in flight. Chain, facilitator and clients share the machine`);
  console.table(many);
  return many.slice(0, 1 + OWN_KEYS.length).map(({ "": name, ratio }) => ({
    name: `payments/s (${name}, ${IN_FLIGHT} in flight), of the facilitator alone`,
    ratio: Number(ratio),
    better: "higher",
  }));
}

/** Older trees cannot settle themselves. */
function isThis({ folder }: Tree): boolean {
  return folder === undefined;
}

/** Own time is the time of a payment during which neither the facilitator nor the chain had a request under way. */
export async function measureOne({ jobgate, sign }: Sale, { facilitator, rpc }: Outside): Promise<Figures> {
  const purchase = jobOf(jobgate.x402Url);
  for (let made = 0; made < WARM_UP; made += SIGNED_AT_ONCE)
    for (const payload of await sign(SIGNED_AT_ONCE)) await pay(purchase, payload);
  const whole: number[] = [];
  const own: number[] = [];
  let cpu = 0;
  while (whole.length < PAYMENTS) {
    const payloads = await sign(SIGNED_AT_ONCE);
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
    cpu += cpuSeconds(jobgate.pid) - cpuBefore;
  }
  return {
    whole: percentile(whole, 0.5),
    own: percentile(own, 0.5),
    ownLate: percentile(own, 0.99),
    cpu: (cpu / whole.length) * 1_000,
  };
}

export const rowOf = (name: string, { whole, own, ownLate, cpu }: Figures) => ({
  "": name,
  "whole p50 ms": whole.toFixed(1),
  "own p50 ms": own.toFixed(1),
  "own p99 ms": ownLate.toFixed(1),
  "CPU ms": cpu.toFixed(1),
});

/** Without the proxies, whose work would count as jobgate's. Median of rounds, because the machine's speed drifts. */
export async function measureMany(
  name: string,
  tree: Tree,
  payments: PaymentTarget,
  storeOf: Pick<GatewayOptions, "store"> = {},
) {
  const { jobgate } = await startTree(tree, { payments, ...storeOf });
  try {
    const purchase = jobOf(jobgate.x402Url);
    const offer = await askOffer(purchase);
    const requirements = offer.accepts[0];
    const settle = (paymentPayload: PaymentPayload) =>
      settleAt(payments.facilitatorUrl, {
        x402Version: 2,
        paymentPayload,
        paymentRequirements: requirements,
      });
    const buy = (payload: PaymentPayload) => pay(purchase, payload);
    await perSecond(await signPayments(offer, WARM_UP), IN_FLIGHT, buy);
    const rounds: Readonly<Record<"alone" | "through" | "cpuMs", number>>[] = [];
    while (rounds.length < ROUNDS) {
      const alone = await perSecond(await signPayments(offer, ROUND_PAYMENTS), IN_FLIGHT, settle);
      const payloads = await signPayments(offer, ROUND_PAYMENTS);
      const cpuBefore = cpuSeconds(jobgate.pid);
      const through = await perSecond(payloads, IN_FLIGHT, buy);
      const cpuMs = ((cpuSeconds(jobgate.pid) - cpuBefore) / ROUND_PAYMENTS) * 1000;
      rounds.push({ alone, through, cpuMs });
    }
    const middle = (of: (round: (typeof rounds)[number]) => number) => percentile(rounds.map(of), 0.5);
    return {
      "": name,
      "CPU ms": middle(({ cpuMs }) => cpuMs).toFixed(1),
      "payments/s": Math.round(middle(({ through }) => through)),
      "facilitator alone": Math.round(middle(({ alone }) => alone)),
      ratio: middle(({ alone, through }) => through / alone).toFixed(2),
    };
  } finally {
    await jobgate.stop();
  }
}

/** @throws Error unless the payment is settled, because a facilitator that fails is quick */
async function settleAt(facilitatorUrl: string, request: object): Promise<void> {
  for (const route of ["verify", "settle"]) {
    const { body } = await exchange(`${facilitatorUrl}/${route}`, "POST", JSON.stringify(request));
    const { isValid, success } = JSON.parse(body);
    if (isValid !== true && success !== true) throw new Error(`the facilitator refused to ${route}: ${body}`);
  }
}

export const jobOf = (url: string): Purchase => ({
  url: `${url}/x402/jobs/1/0`,
  method: "POST",
  status: 202,
});
