import { expect, test } from "vitest";
import { AMOUNT, startPaidParts } from "../../e2e/paid-parts.ts";
import { type Replica, startReplica } from "../../e2e/replicas.ts";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../../helpers/clients.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { openReplica } from "./open-in-database.ts";
import { programWithSchema } from "./program-with-schema.ts";

/** Adds a table, and a column to each table. */
const EXPAND = `
  DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'jobgate' AND tablename <> 'schema_version' LOOP
      EXECUTE format('ALTER TABLE jobgate.%I ADD COLUMN added text', name);
    END LOOP;
  END $$;
  CREATE TABLE jobgate.added (id bigint PRIMARY KEY);`;
const CONTRACT = "ALTER TABLE jobgate.job_calls DROP COLUMN added";
const REFUSAL =
  "a newer jobgate wrote this store (schema version 103, this jobgate knows 101): start that one";

const parts = startBeforeAll(() => startPaidParts());
const postgres = startBeforeAll(startPostgres);

/** Sends a webhook and a payment to one replica, and expects a runner at another to get both. */
async function expectWork(from: Replica, to: Replica, name: string): Promise<void> {
  const runner = await startRunner({ address: to.runnerAddress });
  const { v2: offer } = await requestOffer(from.x402Url, name);
  const { headers } = await signV2Payment({ offer, account: accounts.payer });
  const earned = () => parts.usdc.balanceOf(accounts.payTo.address);
  const before = await earned();
  for (const [url, more] of [
    [from.hookUrl, {}],
    [from.x402Url, headers],
  ] as const)
    expect((await fetch(url, { method: "POST", body: name, headers: more })).status).toBe(202);
  await expect.poll(() => runner.done).toHaveLength(2);
  expect(runner.calls.map(({ body }) => Buffer.from(body).toString())).toEqual([name, name]);
  expect((await earned()) - before).toBe(AMOUNT);
  await runner.stop();
}

const readiness = async ({ operatorUrl }: Replica) => {
  const response = await fetch(`${operatorUrl}/readyz`);
  return `${response.status} ${await response.text()}`;
};

test("A replica of the release before works and restarts beside a newer one, until a later release excludes it", async () => {
  const url = await postgres.createDatabase();
  const older = await startReplica(parts, url);
  const next = await programWithSchema({ migrations: [EXPAND], usableFrom: 101 });
  const newer = await startReplica(parts, url, { from: next });
  await expectWork(older, newer, "from the older");
  await expectWork(newer, older, "from the newer");
  await older.crash();
  await expectWork(newer, older, "from the newer to the restarted");

  const last = await programWithSchema({ migrations: [EXPAND, CONTRACT], usableFrom: 102 });
  const newest = await startReplica(parts, url, { from: last });
  await expect.poll(() => readiness(older)).toContain(REFUSAL);
  expect((await fetch(older.hookUrl, { method: "POST", body: "too late" })).status).toBe(503);
  await expect(openReplica(url)).rejects.toThrow(REFUSAL);
  expect(await readiness(newer)).toMatch(/^200/);
  await expectWork(newer, newest, "from the newer to the newest");
  await Promise.all([older, newer, newest].map((replica) => replica.stop()));
});
