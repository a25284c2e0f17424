import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { startPostgresProxy } from "../helpers/postgres-proxy.ts";
import { type SynchronousStandby, startSynchronousStandby } from "../helpers/postgres-standby.ts";
import { type PaidParts, startPaidParts } from "./paid-parts.ts";
import { expectAllOnce, payAgain, type Site, startSite } from "./postgres-site.ts";

/** Limit of the time until `/readyz` answers 503. */
const NOTICED_MS = 6_000;
/** Limit of the time until a request is answered. */
const ANSWERED_MS = 10_000;
/** Requests that are sent while the store is known to be unwritable. */
const REFUSED = 200;
const REFUSED_MS = 3_000;
/** Lists that the operator asks for at once meanwhile. */
const LISTS = 20;

let parts: PaidParts;
let postgres: Postgres;
let storeUrl: string;

beforeAll(async () => {
  [parts, postgres] = await Promise.all([startPaidParts(), startPostgres()]);
  storeUrl = await postgres.createDatabase();
});
afterAll(async () => {
  await postgres?.stop();
  await parts?.stop();
});

/** While the store is known to be unwritable, requests are refused at once. */
async function expectRefusals({ answers }: Site): Promise<void> {
  const knownAt = performance.now();
  const late = () => answers.filter(({ sentAt }) => sentAt >= knownAt);
  await expect.poll(() => late().length).toBeGreaterThan(REFUSED);
  for (const { status, tookMs } of late()) {
    expect(status).toBe(503);
    expect(tookMs).toBeLessThan(REFUSED_MS);
  }
}

const balance = () => parts.usdc.balanceOf(accounts.payTo.address);

describe("A synchronous standby that hangs", () => {
  let standby: SynchronousStandby;
  beforeAll(async () => {
    standby = await startSynchronousStandby(postgres, storeUrl);
  });
  afterAll(async () => {
    await postgres.query(storeUrl, "ALTER SYSTEM RESET synchronous_standby_names");
    await postgres.query(storeUrl, "SELECT pg_reload_conf()");
    await standby?.stop();
  });

  test("/readyz answers 503, requests are answered, and afterwards nothing is lost or doubled", async () => {
    const site = await startSite(parts, storeUrl);
    const before = await balance();
    const send = await site.sign("payment");
    const waiting = () =>
      postgres.query(
        storeUrl,
        "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND lower(query) = 'commit'",
      );
    const { paid, endLoad } = await standby.freeze(async () => {
      const payment = send();
      await expect.poll(waiting).not.toEqual([]);
      const endLoad = site.startLoad();
      expect(await site.becomes(503, 60_000)).toBeLessThan(NOTICED_MS);
      await expectRefusals(site);
      const paid = await payment;
      return { paid, endLoad };
    });
    expect(paid).toMatchObject({ status: 503, charged: "unknown" });
    expect(paid.tookMs).toBeLessThan(ANSWERED_MS);
    await site.becomes(200, 60_000);
    await site.accepted(50);
    await endLoad();
    for (const { tookMs } of site.answers) expect(tookMs).toBeLessThan(ANSWERED_MS);
    await expectAllOnce(site, [await payAgain(site, "payment", send)], (await balance()) - before);
  });
});

describe("A network that swallows the packets to and from Postgres", () => {
  test("/readyz answers 503, requests are answered, and afterwards nothing is lost or doubled", async () => {
    const proxy = await startPostgresProxy(postgres.port);
    onTestFinished(() => proxy.stop());
    const site = await startSite(parts, proxy.urlOf(storeUrl));
    const before = await balance();
    const send = await site.sign("payment 2");
    const endLoad = site.startLoad();
    await site.accepted(50);
    proxy.setStalled(true);
    const payment = send();
    expect(await site.becomes(503, 60_000)).toBeLessThan(NOTICED_MS);
    await expectRefusals(site);
    const lists = await Promise.all(Array.from({ length: LISTS }, () => site.listPayments()));
    for (const { status, tookMs } of lists) {
      expect(status).toBe(503);
      expect(tookMs).toBeLessThan(ANSWERED_MS);
    }
    const paid = await payment;
    expect(paid.status).toBe(503);
    expect(paid.tookMs).toBeLessThan(ANSWERED_MS);
    proxy.setStalled(false);
    await site.becomes(200, 60_000);
    await site.accepted(50);
    await endLoad();
    for (const { tookMs } of site.answers) expect(tookMs).toBeLessThan(ANSWERED_MS);
    await expectAllOnce(site, [await payAgain(site, "payment 2", send)], (await balance()) - before);
  });
});
