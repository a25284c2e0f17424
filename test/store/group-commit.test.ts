import { beforeEach, expect, test } from "vitest";
import { UnknownOutcomeError } from "../../src/core/errors.ts";
import { GroupCommit, type GroupCommitOptions, type OperationOutcome } from "../../src/store/group-commit.ts";

/** A batch under way, and how to end it. */
interface Batch {
  readonly operations: readonly number[];
  commit(outcomes?: readonly OperationOutcome[]): void;
  fail(error: Error): void;
}

let batches: Batch[];
beforeEach(() => {
  batches = [];
});

function createPump(options: Partial<GroupCommitOptions<number>> = {}) {
  return new GroupCommit<number>({
    commit: (operations) =>
      new Promise((resolve, reject) => {
        const double = () => operations.map((operation) => ({ result: operation * 2 }));
        batches.push({ operations, commit: (outcomes) => resolve(outcomes ?? double()), fail: reject });
      }),
    maxInFlight: 1,
    ...options,
  });
}

/** Lets everything that is scheduled for now happen. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

const operationsOf = () => batches.map(({ operations }) => operations);

test("Operations pushed in one turn of the event loop share a batch, in order", async () => {
  const pump = createPump();
  const pushed = [pump.push(1), Promise.resolve().then(() => pump.push(3)), pump.push(2)];
  await settle();
  expect(operationsOf()).toEqual([[1, 2, 3]]);
  batches[0]?.commit();
  expect(await Promise.all(pushed)).toEqual([2, 6, 4]);
});

test("Operations that run last are decided last", async () => {
  const pump = createPump({ runsLast: (operation) => operation === 1 });
  const decided: unknown[] = [];
  for (const operation of [1, 2, 3]) void pump.push(operation).then((result) => decided.push(result));
  await settle();
  batches[0]?.commit();
  await settle();
  expect(decided).toEqual([4, 6, 2]);
});

test("The next batch gathers while one is being committed, also from operations that it woke", async () => {
  const pump = createPump();
  const first = pump.push(1).then(() => pump.push(4));
  await settle();
  const second = pump.push(2);
  await settle();
  const third = pump.push(3);
  await settle();
  expect(operationsOf()).toEqual([[1]]);
  batches[0]?.commit();
  await settle();
  expect(operationsOf()).toEqual([[1], [2, 3, 4]]);
  batches[1]?.commit();
  expect(await Promise.all([first, second, third])).toEqual([8, 4, 6]);
});

test("With two batches allowed a second one starts beside the first, and a third does not", async () => {
  const pump = createPump({ maxInFlight: 2 });
  const pushed: Promise<unknown>[] = [];
  for (const operation of [1, 2, 3]) {
    pushed.push(pump.push(operation));
    await settle();
  }
  expect(operationsOf()).toEqual([[1], [2]]);
  batches[1]?.commit();
  expect(await pushed[1]).toBe(4);
  await settle();
  expect(operationsOf()).toEqual([[1], [2], [3]]);
  batches[0]?.commit();
  batches[2]?.commit();
  await Promise.all(pushed);
});

test("A batch takes no more operations and bytes than its bounds, but always one", async () => {
  const pump = createPump({ maxBatchOperations: 3, maxBatchBytes: 10, bytesOf: (operation) => operation });
  const pushed = [1, 1, 1, 1, 9, 1, 50, 1].map((operation) => pump.push(operation));
  for (let index = 0; index < 5; index += 1) {
    await settle();
    batches[index]?.commit();
  }
  await Promise.all(pushed);
  expect(operationsOf()).toEqual([[1, 1, 1], [1, 9], [1], [50], [1]]);
});

test("A failed batch rejects each of its operations with the cause, and does not affect later ones", async () => {
  const pump = createPump();
  const pushed = [pump.push(1), pump.push(2)];
  const outcomes = Promise.allSettled(pushed);
  await settle();
  const cause = new Error("disk full");
  batches[0]?.fail(cause);
  const rejection = {
    status: "rejected",
    reason: expect.objectContaining({ code: "store_unavailable", cause }),
  };
  expect(await outcomes).toEqual([rejection, rejection]);
  const later = pump.push(3);
  await settle();
  batches[1]?.commit();
  expect(await later).toBe(6);
});

test("An operation that fails alone rejects alone", async () => {
  const pump = createPump();
  const outcomes = Promise.allSettled([pump.push(1), pump.push(2)]);
  await settle();
  batches[0]?.commit([{ error: "bad input" }, { result: "fine" }]);
  const [failed, fine] = await outcomes;
  expect(failed).toMatchObject({ reason: { code: "store_unavailable", cause: "bad input" } });
  expect(fine).toMatchObject({ value: "fine" });
});

test("Closing refuses new operations and waits for everything pushed before", async () => {
  const pump = createPump();
  const pushed = pump.push(1);
  let closed = false;
  const closing = pump.close().then(() => {
    closed = true;
  });
  await expect(pump.push(2)).rejects.toMatchObject({ code: "store_unavailable" });
  await settle();
  expect(closed).toBe(false);
  batches[0]?.commit();
  await closing;
  expect(await pushed).toBe(2);
  await pump.close();
});

test("Callers of a batch without an answer learn in time that the outcome is unknown, except patient ones", async () => {
  const pump = createPump({ callerMs: 1, isPatient: (operation) => operation === 2 });
  const patient = pump.push(2);
  await expect(pump.push(1)).rejects.toThrow(UnknownOutcomeError);
  expect(operationsOf()).toEqual([[2, 1]]);
  batches[0]?.commit();
  expect(await patient).toBe(4);
});

test("An operation that must not begin is refused when it is pushed, and while it waits, but not in a batch", async () => {
  let reason: string | undefined;
  const pump = createPump({ refusal: (operation) => (operation === 9 ? undefined : reason) });
  const begun = pump.push(1);
  await settle();
  const waiting = Promise.allSettled([pump.push(2)]);
  const exempt = pump.push(9);
  reason = "commits hang";
  pump.refuseWaiting();
  const refused = { status: "rejected", reason: { code: "store_unavailable", cause: "commits hang" } };
  expect(await waiting).toMatchObject([refused]);
  expect(await Promise.allSettled([pump.push(3)])).toMatchObject([refused]);
  batches[0]?.commit();
  expect(await begun).toBe(2);
  await settle();
  expect(operationsOf()).toEqual([[1], [9]]);
  batches[1]?.commit();
  expect(await exempt).toBe(18);
});

test("Closing does not wait for operations that were refused while they waited", async () => {
  let reason: string | undefined;
  const pump = createPump({ refusal: () => reason });
  const waiting = Promise.allSettled([pump.push(1)]);
  reason = "commits hang";
  pump.refuseWaiting();
  expect(await waiting).toMatchObject([{ status: "rejected" }]);
  await settle();
  expect(operationsOf()).toEqual([]);
  await pump.close();
});
