import { describe, expect, onTestFinished, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { howMany } from "../helpers/how-many.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startPostgresProxy } from "../helpers/postgres-proxy.ts";
import { startSynchronousStandby } from "../helpers/postgres-standby.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidParts } from "./paid-parts.ts";
import { type Answer, expectAllOnce, payAgain, type Site, startSite } from "./postgres-site.ts";

const SENDERS = 16;
const PAYERS = 8;
const ROUNDS = howMany(3, 20);
/** Limit of the time until `/readyz` answers 503. */
const NOTICED_MS = 6_000;
/** Limit of the time from the promotion until a webhook is accepted. */
const RESUMED_MS = 5_000;

const parts = startBeforeAll(() => startPaidParts());
const balance = () => parts.usdc.balanceOf(accounts.payTo.address);

/** A primary and its synchronous standby, and the URL of a database that lists both. */
async function startPair() {
  const primary = await startPostgres();
  onTestFinished(() => primary.stop());
  const url = await primary.createDatabase();
  const standby = await startSynchronousStandby(primary, url);
  onTestFinished(() => standby.stop());
  const proxy = await startPostgresProxy(primary.port);
  onTestFinished(() => proxy.stop());
  const { port } = new URL(proxy.urlOf(url));
  const both = url.replace(/@[^/]*/, `@127.0.0.1:${port},127.0.0.1:${standby.port}`);
  return { primary, standby, proxy, url: `${both}?target_session_attrs=read-write` };
}
type Pair = Awaited<ReturnType<typeof startPair>>;

/** Starts payers; each pays again and again, until the returned function stops them and gives what was paid. */
function startPayers(site: Site, round: string): () => Promise<Answer[]> {
  let isOver = false;
  const paid: Answer[] = [];
  const payer = async (name: number) => {
    for (let number = 1; !isOver; number++) {
      const body = `payment ${round} ${name} ${number}`;
      paid.push(await payAgain(site, body, await site.sign(body)));
    }
  };
  const paying = Promise.all(Array.from({ length: PAYERS }, (_, name) => payer(name)));
  return async () => {
    isOver = true;
    await paying;
    return paid;
  };
}

/** Takes the primary away under load, promotes the standby, and checks what was promised. */
async function failOver(round: string, pair: Pair, takeAway: () => Promise<void> | void): Promise<void> {
  const site = await startSite(parts, pair.url, SENDERS);
  const before = await balance();
  const endPaying = startPayers(site, round);
  const endLoad = site.startLoad();
  await site.accepted(100);
  await takeAway();
  expect(await site.becomes(503, 60_000)).toBeLessThan(NOTICED_MS);
  await pair.standby.promote();
  const promotedAt = performance.now();
  const resumed = () => site.answers.some(({ status, sentAt }) => status === 202 && sentAt > promotedAt);
  await expect.poll(resumed, { interval: 20 }).toBe(true);
  const resumedMs = Math.round(performance.now() - promotedAt);
  console.info(`${round}: writes resumed ${resumedMs} ms after the promotion`);
  expect(resumedMs).toBeLessThan(RESUMED_MS);
  await site.becomes(200, RESUMED_MS);
  await site.accepted(100);
  const paid = await endPaying();
  await endLoad();
  await expectAllOnce(site, paid, (await balance()) - before);
}

describe("A fail-over to a synchronous standby loses and doubles nothing, and writes resume within 5 s of its promotion", () => {
  test.each(Array.from({ length: ROUNDS }, (_, index) => index + 1))(
    "After a kill -9 of the primary, round %i",
    async (number) => {
      const pair = await startPair();
      await failOver(`kill ${number}`, pair, async () => {
        await pair.primary.kill("SIGKILL");
        pair.proxy.cut();
      });
    },
  );

  test("While the primary is silent, its connections still open", async () => {
    const pair = await startPair();
    await failOver("silence", pair, () => pair.proxy.setStalled(true));
  });
});
