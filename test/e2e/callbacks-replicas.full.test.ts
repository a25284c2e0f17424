import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { EventHub } from "../../src/core/events.ts";
import { CallbackKeys } from "../../src/parts/callbacks/callback-keys.ts";
import { CallbackSender } from "../../src/parts/callbacks/callback-sender.ts";
import { CALLBACKS as CALLBACKS_MODULE } from "../../src/parts/callbacks/store/module.ts";
import { eventually } from "../helpers/eventually.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startReceiver } from "../parts/callbacks/callback-harness.ts";
import { openReplica, PATIENT } from "../parts/postgres/open-in-database.ts";
import { acceptId, claimCalls } from "../store/store-fixtures.ts";

const CALLBACKS = 120;
const postgres = startBeforeAll(startPostgres);

async function startReplica(url: string, callbackUrl: string) {
  const store = await openReplica(url, { timeouts: PATIENT });
  const keys = new CallbackKeys((candidate) => store.keepSecret("callbacks", candidate));
  await keys.use([]);
  const sender = new CallbackSender({
    ...{ ledger: store.of(CALLBACKS_MODULE), store, keys, callUrl: undefined },
    events: new EventHub(),
    logger: pino({ level: "silent" }),
  });
  await sender.use({
    endpoints: [{ url: callbackUrl, events: ["call.finished"], secrets: [] }],
    buyers: undefined,
  });
  await sender.start();
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= sender.stop());
  onTestFinished(async () => {
    await stop();
    await store.close();
  });
  return { store, stop };
}

test("Of three replicas one sends at a time, and when it stops another one goes on", async () => {
  const url = await postgres.createDatabase();
  let open = 0;
  let most = 0;
  const receiver = await startReceiver(({ response }) => {
    open += 1;
    most = Math.max(most, open);
    setImmediate(() => {
      open -= 1;
      response.writeHead(204).end();
    });
  });
  const replicas = [];
  for (let n = 0; n < 3; n++) replicas.push(await startReplica(url, receiver.url));
  const [first, second, third] = replicas;
  if (first === undefined || second === undefined || third === undefined) throw new Error("expected three");
  const finish = async () => {
    await Promise.all(Array.from({ length: CALLBACKS / 3 }, () => acceptId(third.store)));
    const calls = await claimCalls(third.store, { limit: CALLBACKS });
    await Promise.all(calls.map((call) => third.store.ack(call)));
  };
  const allSent = (count: number) =>
    eventually(async () =>
      expect((await third.store.totals()).sums.callbacks).toEqual({
        states: { pending: 0, sent: count, dead: 0 },
      }),
    );
  await finish();
  await allSent(CALLBACKS / 3);
  // Whoever holds the lease is among them in the end.
  for (const [n, { stop }] of [first, second].entries()) {
    await Promise.all([finish(), stop()]);
    await allSent((CALLBACKS / 3) * (n + 2));
  }
  const ids = receiver.calls.map(({ headers }) => headers["webhook-id"]);
  expect(new Set(ids).size).toBe(CALLBACKS);
  expect(most).toBe(1);
});
