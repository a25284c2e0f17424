import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { type Jobgate, startJobgate } from "../../helpers/jobgate-process.ts";
import { type Runner, startRunner } from "../../helpers/runner.ts";
import { until } from "../../helpers/until.ts";
import {
  type Bought,
  type ChannelParts,
  channelOf,
  KEPT,
  newPayer,
  PRICE,
  readBought,
  startChannelShop,
  untilOffered,
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

const CALLS = 5;

/**
 * Kills a jobgate at a point while the official client buys calls and gets the rest of its channel back, and checks that each
 * call ran once, was paid once, and that the payer has the rest.
 */
export async function expectExactThrough(
  parts: ChannelParts,
  point: (typeof CHANNEL_POINTS)[number],
): Promise<void> {
  const { anvil, usdc } = parts;
  const folder = await mkdtemp(join(tmpdir(), "jobgate-channels-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let config = "";
  let isKilled = false;
  let life: Jobgate | undefined;
  const shop = await startChannelShop(parts, {
    async start(options) {
      config = options.config;
      life = await startJobgate({ config, folder, env: { JOBGATE_CRASH_AT: point } });
      void life.exited.then(() => {
        isKilled = true;
      });
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
    await untilOffered(shop.urlOf(KEPT));
    runners.push(await startRunner({ address: life.runnerAddress }));
  };

  const payer = await newPayer(parts);
  const fundsBefore = await usdc.balanceOf(payer.address);
  const sold = BigInt(CALLS) * PRICE;
  let sent: { readonly header: string; readonly body: string } | undefined;
  const client = channelClient({
    ...{ anvil, payer },
    async fetch(input, init) {
      const request = new Request(input, init);
      const header = request.headers.get("payment-signature");
      if (header !== null) sent = { header, body: await request.clone().text() };
      return globalThis.fetch(request);
    },
  });

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
  for (let call = 0; call < CALLS; call++) {
    const bought = await buy(`call ${call}`);
    expect(bought.status).toBe(202);
    callIds.add(bought.callId);
    channelId = channelOf(bought);
  }
  expect(callIds.size).toBe(CALLS);
  // A claim is made soon, if the process lives.
  await until(async () => {
    if (isKilled && !isRestarted) await restart();
    return (await readChannels(anvil, "channels", channelId))[1] === sold;
  });
  const left = async () => (await usdc.balanceOf(payer.address)) === fundsBefore - sold;
  await until(async () => {
    try {
      await client.scheme.refund(shop.urlOf(KEPT));
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
  const ran = new Map(
    runners.flatMap(({ calls }) => calls.map(({ callId, body }) => [callId, Buffer.from(body).toString()])),
  );
  expect([...ran.values()].sort()).toEqual(Array.from({ length: CALLS }, (_, call) => `call ${call}`));
}
