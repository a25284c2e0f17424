import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Store } from "../../../../src/store/store.ts";
import { eventually } from "../../../helpers/eventually.ts";
import { encodeTestCall, paidCall, paymentIntent, webhookCall } from "../../../store/store-fixtures.ts";
import { nearbyReplica, openMemoryStore } from "../memory/open-memory-store.ts";
import { MemoryPostgres } from "../memory/server.ts";

const DELIVERY = { keys: [{ key: "a", identifies: true }], bodyHash: "hash", windowMs: 60_000 };

/** A commit that the standby does not have. */
interface Waiting {
  readonly arrive: () => void;
  readonly endWait: () => void;
}

/** Opens two replicas on a primary that is cut off from its standby. */
async function openCutOff() {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-standby-"));
  const server = new MemoryPostgres(join(folder, "rows.db"), true);
  const stores: Store[] = [];
  for (const _ of ["a", "b"])
    stores.push(
      await openMemoryStore(nearbyReplica(server), { encodeJobCall: encodeTestCall, maxPending: 10 }),
    );
  const waiting: Waiting[] = [];
  server.commits.toStandby = (arrive, endWait) => void waiting.push({ arrive, endWait });
  const letAllArrive = () => {
    server.commits.toStandby = (arrive) => arrive();
    for (const { arrive } of waiting) arrive();
  };
  onTestFinished(async () => {
    letAllArrive();
    for (const store of stores) await store.close();
    server.close();
    await rm(folder, { recursive: true });
  });
  const [writer, reader] = stores as [Store, Store];
  /** Ends the connection on which a first commit waits, so that others see it, and waits until its replica asks for it. */
  const showFirst = async () => {
    await eventually(() => expect(waiting).toHaveLength(1));
    waiting[0]?.endWait();
    await eventually(() => expect(waiting).toHaveLength(2));
  };
  /** Returns how a promise begins: with a commit that waits for the standby, or with an answer. */
  const begins = (answer: Promise<unknown>) =>
    Promise.race([
      answer.then(() => "answer"),
      eventually(() => expect(waiting).toHaveLength(3)).then(() => "commit"),
    ]);
  return { writer, reader, showFirst, begins, letAllArrive };
}

test("A repeat of a delivery that no standby has is answered once the standby has it", async () => {
  const { writer, reader, showFirst, begins, letAllArrive } = await openCutOff();
  const first = writer.acceptOnce(webhookCall(), DELIVERY);
  await showFirst();
  const repeat = reader.acceptOnce(webhookCall(), DELIVERY);
  expect(await begins(repeat)).toBe("commit");
  letAllArrive();
  expect([(await first).kind, (await repeat).kind]).toEqual(["accepted", "duplicate"]);
});

test("A payment that no standby has is confirmed once the standby has it", async () => {
  const { writer, reader, showFirst, begins, letAllArrive } = await openCutOff();
  const intent = paymentIntent(1);
  const first = writer.beginPayment(intent, paidCall());
  await showFirst();
  expect((await reader.findPayment(intent.key))?.state).toBe("intent");
  const confirmed = reader.confirmPayment(intent.key, "intent");
  expect(await begins(confirmed)).toBe("commit");
  letAllArrive();
  expect([(await first).kind, await confirmed]).toEqual(["begun", true]);
  expect(await reader.confirmPayment(intent.key, "settled")).toBe(false);
});
