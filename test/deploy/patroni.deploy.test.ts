import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { withoutItsPrimary } from "../e2e/postgres-site.ts";
import { startPgBouncer } from "../helpers/pgbouncer.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { type PatroniNode, startPatroniCluster } from "./patroni.ts";

const FAIL_OVERS = 10;
const SWITCH_OVERS = 3;
const HUNG = 5;
const PARTITIONS = 5;
const LAGGING = 2;
const POOLED = 3;
/** Patroni waits for its leader's lease, and then elects. */
const ELECTION_MS = 90_000;
/** Written by some hundreds of commits. */
const LAG_BYTES = 1_000_000;
/** Longer than a commit takes. */
const HANGING_MS = 2_000;

const parts = startBeforeAll(() => startPaidParts());
const cluster = startBeforeAll(startPatroniCluster);

const rounds = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
const leads = (node: PatroniNode) => () =>
  until(node.isPrimary, { waitMs: ELECTION_MS }).then(() => undefined);

test.each(rounds(FAIL_OVERS))(
  "Patroni fails over after the primary's machine is gone, round %i",
  async (number) => {
    const url = await cluster.createDatabase();
    const { primary, standby } = await cluster.healthy();
    await withoutItsPrimary({
      ...{ parts, url, round: `fail-over ${number}`, replacePrimary: leads(standby) },
      takeAway: () => primary.kill(),
    });
    await primary.start();
    await cluster.healthy();
  },
);

test.each(rounds(SWITCH_OVERS))("The operator switches over, round %i", async (number) => {
  const url = await cluster.createDatabase();
  const { standby } = await cluster.healthy();
  await withoutItsPrimary({
    ...{ parts, url, round: `switch-over ${number}`, replacePrimary: leads(standby), isNoticed: false },
    takeAway: () => cluster.switchOver(),
  });
  await cluster.healthy();
});

test.each(rounds(HUNG))("The primary is gone while its standby hangs, round %i", async (number) => {
  const url = await cluster.createDatabase();
  const { primary, standby } = await cluster.healthy();
  await withoutItsPrimary({
    ...{ parts, url, round: `hung standby ${number}`, replacePrimary: leads(standby) },
    async takeAway() {
      standby.signal("SIGSTOP");
      await sleep(HANGING_MS);
      await primary.kill();
      standby.signal("SIGCONT");
    },
  });
  await primary.start();
  await cluster.healthy();
});

test.each(rounds(PARTITIONS))(
  "The primary loses etcd, and its standby takes over, round %i",
  async (number) => {
    const url = await cluster.createDatabase();
    const { primary, standby } = await cluster.healthy();
    await withoutItsPrimary({
      ...{ parts, url, round: `partition ${number}`, replacePrimary: leads(standby) },
      async takeAway() {
        primary.setPartitioned(true);
        await until(async () => !(await primary.isPrimary()));
      },
    });
    expect(await primary.isPrimary()).toBe(false);
    primary.setPartitioned(false);
    await cluster.healthy();
  },
);

test.each(rounds(LAGGING))(
  "The primary is gone while its standby has not replayed its commits, round %i",
  async (number) => {
    const url = await cluster.createDatabase();
    const { primary, standby } = await cluster.healthy();
    const lagBytes = async () => {
      const [row] = await standby.query<{ bytes: number }>(
        "SELECT (pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn())::int AS bytes",
      );
      return row?.bytes;
    };
    await withoutItsPrimary({
      ...{ parts, url, round: `lagging standby ${number}`, replacePrimary: leads(standby) },
      async takeAway() {
        await cluster.delayReplay("10min");
        await expect.poll(lagBytes).toBeGreaterThan(LAG_BYTES);
        await primary.kill();
      },
    });
    await primary.start();
    await cluster.delayReplay(null);
    await cluster.healthy();
  },
);

test.each(rounds(POOLED))(
  "Patroni fails over behind PgBouncer in transaction mode, one for each node, round %i",
  async (number) => {
    const { pathname } = new URL((await cluster.createDatabase()).replace(/,[^/]*/, ""));
    const { primary, standby } = await cluster.healthy();
    const poolers = await Promise.all(cluster.nodes.map(startPgBouncer));
    onTestFinished(() => Promise.all(poolers.map((pooler) => pooler.stop())).then(() => undefined));
    const hosts = poolers.map(({ port }) => `127.0.0.1:${port}`).join();
    const url = `postgres://postgres@${hosts}${pathname}?target_session_attrs=read-write`;
    await withoutItsPrimary({
      ...{ parts, url, round: `fail-over behind poolers ${number}`, listen: false },
      replacePrimary: leads(standby),
      takeAway: () => primary.kill(),
    });
    await primary.start();
    await cluster.healthy();
  },
);
