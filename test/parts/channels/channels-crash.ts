import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { type Jobgate, startJobgate } from "../../helpers/jobgate-process.ts";
import { callJson } from "../../helpers/operator.ts";
import { type JobHandler, type Runner, startRunner } from "../../helpers/runner.ts";
import { until } from "../../helpers/until.ts";
import {
  type Bought,
  type ChannelParts,
  channelOf,
  DEPOSIT,
  KEPT,
  newPayer,
  newPermit2Payer,
  PRICE,
  readBought,
  startChannelShop,
  untilOffered,
  withPermit2,
} from "./harness.ts";

/** Points of payments, claims and refunds at which a process is killed. */
export const CHANNEL_POINTS = [
  "before-journal",
  "after-journal",
  "after-settle",
  "after-commit",
  "channels/before-claim",
  "channels/after-claim",
  "channels/before-refund",
  "channels/after-refund",
] as const;

/** Points of a transaction that jobgate sends itself. */
export const TRANSACTION_POINTS = [
  "transactions/before-journal",
  "transactions/after-journal",
  "transactions/after-broadcast",
] as const;

/** Points of a deposit. */
export const DEPOSIT_POINTS = ["before-journal", "after-journal", "after-settle", "after-commit"] as const;

const CALLS = 5;
/** Calls that one deposit pays. */
const DEPOSITED = Number(DEPOSIT / PRICE);
/** This call fails. It is charged all the same. */
const FAILING = 2;
const bodyOf = (call: number) => `${call === FAILING ? "fail" : "call"} ${call}`;
const handle: JobHandler = ({ body }) => {
  if (Buffer.from(body).toString().startsWith("fail")) throw new Fail("as asked");
};

/**
 * Kills a jobgate at a point while the official client buys calls and gets the rest of its channel back, and checks that each
 * call ran once, was paid once, and that the payer has the rest.
 */
export async function expectExactThrough(
  parts: ChannelParts,
  point: (typeof CHANNEL_POINTS | typeof TRANSACTION_POINTS)[number],
  {
    edit,
    byPermit2 = false,
    atTopUp = false,
  }: {
    /** Changes the configuration. */
    readonly edit?: (config: string) => string;
    /** The token has no EIP-3009. */
    readonly byPermit2?: boolean;
    /** The kill is at the second deposit. Default: the process gets to the point for the first time. */
    readonly atTopUp?: boolean;
  } = {},
): Promise<void> {
  const { anvil, usdc } = parts;
  // The client learns from the refusal of a further voucher what its lost answer said.
  const calls = atTopUp ? DEPOSITED + 2 : CALLS;
  const folder = await mkdtemp(join(tmpdir(), "jobgate-channels-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let config = "";
  let isKilled = false;
  let life: Jobgate | undefined;
  const startDoomed = async () => {
    life = await startJobgate({ config, folder, env: { JOBGATE_CRASH_AT: point } });
    void life.exited.then(() => {
      isKilled = true;
    });
  };
  const shop = await startChannelShop(parts, {
    handle,
    edit: (text) => (edit ?? String)(byPermit2 ? withPermit2(text) : text),
    async start(options) {
      config = options.config;
      if (atTopUp) life = await startJobgate({ config, folder });
      else await startDoomed();
      return new Proxy({} as Jobgate, { get: (_, name) => Reflect.get(life as Jobgate, name) });
    },
  });
  const runners: Runner[] = [shop.runner];
  onTestFinished(async () => {
    await Promise.all(runners.map((runner) => runner.stop()));
    await shop.stop();
  });
  let isRestarted = false;
  const restart = async () => {
    if (isRestarted) throw new Error(`jobgate failed without a kill:\n${life?.logs.join("\n")}`);
    isRestarted = true;
    await life?.exited;
    life = await startJobgate({ config, folder });
    await resumeSale(life);
  };
  const resumeSale = async ({ runnerAddress }: Jobgate) => {
    await untilOffered(shop.urlOf(KEPT));
    runners.push(await startRunner({ address: runnerAddress, handle }));
  };

  const payer = await (byPermit2 ? newPermit2Payer(parts) : newPayer(parts));
  const fundsBefore = await usdc.balanceOf(payer.address);
  const sold = BigInt(calls) * PRICE;
  let sent: { readonly header: string; readonly body: string } | undefined;
  const observed: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    const header = request.headers.get("payment-signature");
    if (header !== null) sent = { header, body: await request.clone().text() };
    return globalThis.fetch(request);
  };
  const client = channelClient({ anvil, payer, fetch: observed });

  /** Buys a call; after a lost answer, by the very same request. */
  const buy = async (body: string): Promise<Bought> => {
    try {
      return await shop.buy(client.fetch, body, KEPT);
    } catch {
      await restart();
      if (sent?.body !== body) return shop.buy(client.fetch, body, KEPT);
      const headers = { "payment-signature": sent.header };
      return until(async () => {
        const again = await readBought(await fetch(shop.urlOf(KEPT), { method: "POST", headers, body }));
        return again.status === 202 && again;
      });
    }
  };
  const callIds = new Set<number | undefined>();
  let channelId = "";
  for (let call = 0; call < calls; call++) {
    if (call === DEPOSITED) {
      await life?.stop();
      await startDoomed();
      await resumeSale(life as Jobgate);
    }
    const bought = await buy(bodyOf(call));
    expect(bought.status).toBe(202);
    callIds.add(bought.callId);
    channelId = channelOf(bought);
  }
  expect(callIds.size).toBe(calls);
  // A claim is made soon, if the process lives.
  await until(async () => {
    if (isKilled && !isRestarted) await restart();
    return (await readChannels(anvil, "channels", channelId))[1] === sold;
  });
  const deposited = (atTopUp ? 2n : 1n) * DEPOSIT;
  expect(await readChannels(anvil, "channels", channelId)).toEqual([deposited, sold]);
  const left = async () => (await usdc.balanceOf(payer.address)) === fundsBefore - sold;
  await until(async () => {
    try {
      await client.scheme.refund(shop.urlOf(KEPT), { fetch: observed });
    } catch (error) {
      if (!isRestarted && String(error).includes("fetch failed")) await restart();
      else if (!/balance|busy|mismatch/.test(String(error))) throw error;
    }
    return left();
  });
  await until(async () => (await usdc.balanceOf(shop.payTo.address)) === sold, {
    details: () => life?.logs.join("\n") ?? "",
  });
  expect(isRestarted).toBe(true);
  expect(await readChannels(anvil, "channels", channelId)).toEqual([sold, sold]);
  // The same request gets its first outcome, and pays nothing more.
  const headers = { "payment-signature": sent?.header ?? "" };
  const again = await readBought(await fetch(shop.urlOf(KEPT), { headers }));
  expect(again).toMatchObject({ status: 200, settlement: { amount: String(deposited - sold) } });
  expect(await readChannels(anvil, "refundNonce", channelId)).toBe(1n);
  const ran = new Map(
    runners.flatMap(({ calls }) => calls.map(({ callId, body }) => [callId, Buffer.from(body).toString()])),
  );
  expect([...ran.values()].sort()).toEqual(Array.from({ length: calls }, (_, call) => bodyOf(call)).sort());
  const charged = String(sold);
  const shown = async () =>
    (await callJson(shop.jobgate.operatorUrl, "GetChannel", { id: channelId })).answer.channel;
  // After a kill, jobgate learns of the refund when it looks at the chain again.
  await expect
    .poll(shown)
    .toMatchObject({ deposited: charged, charged, final: charged, claimed: charged, lost: "0" });
}
