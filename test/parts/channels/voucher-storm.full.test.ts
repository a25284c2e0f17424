import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/client";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { expect, it, onTestFinished } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import type { TestAccount } from "../../helpers/accounts.ts";
import { readChannels } from "../../helpers/channels.ts";
import { howMany } from "../../helpers/how-many.ts";
import { type Jobgate, startJobgate } from "../../helpers/jobgate-process.ts";
import { type JobHandler, type Runner, startRunner } from "../../helpers/runner.ts";
import { type Random, randomFrom } from "../../helpers/seeded-random.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import {
  type Bought,
  type ChannelParts,
  type ChannelShop,
  channelOf,
  KEPT,
  newPayer,
  PRICE,
  RETURNED,
  readBought,
  startChannelParts,
  startChannelShop,
} from "./harness.ts";

/** Calls that all buyers buy together, over {@link BUYERS} channels. */
const VOUCHERS = Number(process.env.JOBGATE_STORM_VOUCHERS ?? howMany(240, 600));
const SEED = Number(process.env.JOBGATE_STORM_SEED ?? Date.now() % 1_000_000_000);
const BUYERS = 6;
const KILLS = 8;
/** Deposits are of this many prices, so that each channel gets several. */
const DEPOSIT_PRICES = Math.ceil(VOUCHERS / BUYERS / 3);
/** One of so many answers is lost. */
const LOST = 20;
/** One of so many calls fails and is charged back. */
const FAILED = 10;

const parts = startBeforeAll(startChannelParts);

it(`${VOUCHERS} vouchers amid kills and lost answers: each pays for one call, and what is claimed is what was delivered`, {
  timeout: 300_000 + VOUCHERS * 100,
}, async () => {
  console.log(`voucher storm: JOBGATE_STORM_SEED=${SEED} JOBGATE_STORM_VOUCHERS=${VOUCHERS}`);
  const random = randomFrom(SEED);
  const lives = await startLives();
  const { shop } = lives;
  const buyers: Buyer[] = [];
  for (let i = 0; i < BUYERS; i++)
    buyers.push(await newBuyer(parts, { shop, random, isUp: () => lives.isUp }));
  const perBuyer = Math.floor(VOUCHERS / BUYERS);
  let bought = 0;
  const buying = buyers.map(async (buyer, i) => {
    for (let call = 0; call < perBuyer; call++) {
      const fails = random(FAILED) === 0;
      await buyer.buy(`${fails ? "fail" : "call"} ${i}-${call}`, fails || random(2) === 0 ? RETURNED : KEPT);
      bought += 1;
    }
  });
  const killing = (async () => {
    for (let kill = 1; kill <= KILLS; kill++) {
      const due = (kill * VOUCHERS) / (KILLS + 1);
      await until(() => bought >= due, { waitMs: 120_000 + VOUCHERS * 100 });
      await lives.killAndRestart();
    }
  })();
  await Promise.all([...buying, killing]);

  const all = buyers.flatMap(({ bodies }) => bodies).sort();
  expect(all).toHaveLength(perBuyer * BUYERS);
  // The voucher of a call that was charged back buys again: a lost answer to it may be asked for too late.
  const ranOnce = () =>
    lives.ran().filter((body, i, bodies) => !isFailing(body) || bodies.indexOf(body) === i);
  await until(() => ranOnce().length >= all.length);
  expect(ranOnce().sort()).toEqual(all);
  expect(new Set(buyers.flatMap(({ callIds }) => callIds)).size).toBe(all.length);
  let earned = 0n;
  for (const buyer of buyers) {
    const spent = BigInt(buyer.delivered) * PRICE;
    earned += spent;
    await until(async () => (await readChannels(parts.anvil, "channels", buyer.channelId))[1] === spent);
    await until(async () => {
      await buyer.scheme.refund(shop.urlOf(KEPT)).catch((error: unknown) => {
        if (!/balance|busy|mismatch/.test(String(error))) throw error;
      });
      return (await parts.usdc.balanceOf(buyer.payer.address)) === buyer.funds - spent;
    });
  }
  await until(async () => (await parts.usdc.balanceOf(shop.payTo.address)) === earned);
  expect(lives.kills).toBe(KILLS);
});

/** A shop whose process is killed and started again. */
async function startLives() {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-vouchers-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let config = "";
  let life: Jobgate | undefined;
  let isUp = true;
  let kills = 0;
  const shop = await startChannelShop(parts, {
    keys: "claim_every_secs = 2",
    handle,
    async start(options) {
      config = options.config;
      life = await startJobgate({ config, folder });
      return new Proxy({} as Jobgate, { get: (_, name) => Reflect.get(life as Jobgate, name) });
    },
  });
  const runners: Runner[] = [shop.runner];
  onTestFinished(async () => {
    await Promise.all(runners.map((runner) => runner.stop()));
    await shop.stop();
  });
  return {
    shop,
    get isUp() {
      return isUp;
    },
    get kills() {
      return kills;
    },
    async killAndRestart() {
      isUp = false;
      life?.kill("SIGKILL");
      await life?.exited;
      kills += 1;
      life = await startJobgate({ config, folder });
      runners.push(await startRunner({ address: life.runnerAddress, handle }));
      isUp = true;
    },
    /** Bodies of the calls that ran. A call that was delivered twice ran once. */
    ran(): string[] {
      const byId = new Map(
        runners.flatMap(({ calls }) =>
          calls.map(({ callId, body }) => [callId, Buffer.from(body).toString()] as const),
        ),
      );
      return [...byId.values()];
    },
  };
}

const handle: JobHandler = ({ body }) => {
  if (isFailing(Buffer.from(body).toString())) throw new Fail("no ink");
  return undefined;
};

function isFailing(body: string): boolean {
  return body.startsWith("fail");
}

interface Buyer {
  readonly payer: TestAccount;
  readonly funds: bigint;
  readonly scheme: BatchSettlementEvmScheme;
  /** Calls that it bought, and their bodies. */
  readonly callIds: number[];
  readonly bodies: string[];
  readonly channelId: string;
  /** Calls that are not charged back. */
  readonly delivered: number;
  /** Buys a call, by the very same request until there is an answer. */
  buy(body: string, job: number): Promise<void>;
}

async function newBuyer(
  { anvil, usdc }: ChannelParts,
  of: { readonly shop: ChannelShop; readonly random: Random; readonly isUp: () => boolean },
): Promise<Buyer> {
  const payer = await newPayer({ anvil, usdc, stop: async () => {} });
  const funds = BigInt(VOUCHERS) * PRICE;
  await usdc.mint(payer.address, funds);
  const readContract = anvil.client.readContract.bind(anvil.client);
  type Signer = ConstructorParameters<typeof BatchSettlementEvmScheme>[0];
  const scheme = new BatchSettlementEvmScheme({ ...payer, readContract } as unknown as Signer, {
    depositStrategy: () => BigInt(DEPOSIT_PRICES) * PRICE,
  });
  let sent: { readonly header: string; readonly body: string } | undefined;
  const pay = wrapFetchWithPaymentFromConfig(
    async (input, init) => {
      const request = new Request(input, init);
      const header = request.headers.get("payment-signature");
      if (header === null) return fetch(request);
      sent = { header, body: await request.clone().text() };
      const answer = fetch(request);
      // The buyer sees no answer, and does not know whether the request was sold.
      if (of.random(LOST) === 0) await answer.then(() => Promise.reject(new Error("the answer is lost")));
      return answer;
    },
    { schemes: [{ network: `eip155:${anvil.chainId}`, client: scheme }], spendControls: false },
  );
  const callIds: number[] = [];
  const bodies: string[] = [];
  let channelId = "";
  let delivered = 0;
  const ask = async (body: string, job: number): Promise<Bought> => {
    const url = of.shop.urlOf(job);
    if (sent?.body !== body) return readBought(await pay(url, { method: "POST", body }));
    const headers = { "payment-signature": sent.header };
    return readBought(await fetch(url, { method: "POST", headers, body }));
  };
  return {
    ...{ payer, funds: await usdc.balanceOf(payer.address), scheme, callIds, bodies },
    get channelId() {
      return channelId;
    },
    get delivered() {
      return delivered;
    },
    async buy(body, job) {
      sent = undefined;
      let last: unknown;
      const bought = await until(
        async () => {
          if (!of.isUp()) return undefined;
          try {
            const answer = await ask(body, job);
            last = answer;
            // Nothing was sold, and the client's sums are outdated: it signs again.
            if (answer.status === 402) sent = undefined;
            return answer.status === 202 && answer;
          } catch (error) {
            last = error;
            return undefined;
          }
        },
        { details: () => `The last answer to ${body}: ${inspect(last)}` },
      );
      callIds.push(bought.callId ?? Number.NaN);
      bodies.push(body);
      channelId = channelOf(bought);
      if (!isFailing(body)) delivered += 1;
    },
  };
}
