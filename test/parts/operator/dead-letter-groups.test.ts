import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type DeadLetterGroup, OperatorService } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { DEAD_LETTER_JOB, type OperatorUnderTest, startOperator } from "../../helpers/operator.ts";
import { acceptId, claimCalls } from "../../store/store-fixtures.ts";

const MAX_PENDING = 20;

let jobgate: OperatorUnderTest;
const api = () =>
  createClient(OperatorService, createConnectTransport({ httpVersion: "1.1", baseUrl: jobgate.url }));
beforeAll(async () => {
  jobgate = await startOperator({ maxPending: MAX_PENDING });
});
afterAll(() => jobgate.stop());

let ink: DeadLetterGroup;
beforeEach(async () => {
  for (const reason of ["no ink", "no paper", "no ink"]) await jobgate.deadLetter("letter", reason);
  const { groups, totalGroups, totalDeadLetters } = await api().listDeadLetterGroups({});
  expect({ totalGroups, totalDeadLetters }).toEqual({ totalGroups: 2n, totalDeadLetters: 3n });
  const [largest] = groups;
  if (largest === undefined) throw new Error("no group");
  ink = largest;
  return async () => {
    for (const group of (await api().listDeadLetterGroups({})).groups) await api().dropDeadLetters({ group });
    expect((await jobgate.store.totals()).calls.dead).toBe(0);
  };
});

test("The largest group comes first, and its fields list exactly its dead letters", async () => {
  expect(ink).toMatchObject({ origin: "webhook", serviceId: 1n, jobId: DEAD_LETTER_JOB, count: 2n });
  const { origin, serviceId, jobId, reason } = ink;
  const page = await api().listDeadLetters({ origin, serviceId, jobId, reason, pageSize: 1 });
  const rest = await api().listDeadLetters({ reason, pageToken: page.nextPageToken });
  const letters = [...page.deadLetters, ...rest.deadLetters];
  expect(letters.map((letter) => letter.reason)).toEqual(["no ink", "no ink"]);
  expect([letters[1]?.deadAt, letters[0]?.deadAt]).toEqual([ink.oldestDeadAt, ink.newestDeadAt]);
  expect((await api().listDeadLetters({ jobId: DEAD_LETTER_JOB + 1n })).deadLetters).toEqual([]);
});

test("A group has the dead letters whose reasons differ in numbers, and is dropped as a whole", async () => {
  for (const reason of ["took 12 ms", "took 7 ms"]) await jobgate.deadLetter("letter", reason);
  const { groups, totalDeadLetters } = await api().listDeadLetterGroups({ text: "TOOK 3" });
  expect(groups).toMatchObject([{ reason: "took # ms", count: 2n }]);
  expect(totalDeadLetters).toBe(2n);
  const { deadLetters } = await api().listDeadLetters({ reason: "took 12 ms" });
  expect(deadLetters.map(({ reason }) => reason)).toEqual(["took 7 ms", "took 12 ms"]);
  const group = { ...ink, reason: "took 7 ms" };
  expect(await api().dropDeadLetters({ group })).toMatchObject({ count: 2n, nextPageToken: "" });
});

test("Drops a group, and nothing else", async () => {
  expect(await api().dropDeadLetters({ group: ink })).toMatchObject({ count: 2n, nextPageToken: "" });
  expect((await api().listDeadLetterGroups({})).groups).toMatchObject([{ reason: "no paper", count: 1n }]);
});

test("A retried group waits while half of the queue is taken, so that requests find room", async () => {
  while (jobgate.store.status().pending < MAX_PENDING / 2) await acceptId(jobgate.store);
  const stopped = await api().retryDeadLetters({ group: ink });
  expect(stopped.count).toBe(0n);
  expect(stopped.nextPageToken).not.toBe("");
  for (const call of await claimCalls(jobgate.store, { limit: MAX_PENDING })) await jobgate.store.ack(call);
  const resumed = await api().retryDeadLetters({ group: ink, pageToken: stopped.nextPageToken });
  expect(resumed).toMatchObject({ count: 2n, nextPageToken: "", statuses: [] });
  expect((await jobgate.store.totals()).calls).toMatchObject({ ready: 2, dead: 1 });
});

test("Refuses a group beside IDs, and a group without an origin", async () => {
  const requests = [{ group: ink, callIds: [1n] }, { group: { ...ink, origin: "" } }];
  for (const request of requests) {
    const refused = await api()
      .dropDeadLetters(request)
      .catch((error: unknown) => error);
    expect(ConnectError.from(refused).code).toBe(Code.InvalidArgument);
  }
  expect((await jobgate.store.totals()).calls.dead).toBe(3);
});
