import { getEventListeners } from "node:events";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Metadata, Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import { expect, onTestFinished, test, vi } from "vitest";
import {
  type GatewayMessage,
  GatewayMessageSchema,
  LeaseStatus,
  type RunnerMessage,
  RunnerService,
} from "../../src/gen/jobgate/v1/runner_pb.ts";
import { grpcServiceDefinition } from "../../src/grpc/service-definition.ts";
import type { Job } from "../../src/runner/job.ts";
import { until } from "../helpers/until.ts";
import { startRun } from "./start-run.ts";

const { DONE, LEASE_LOST, INVALID_ARGUMENT } = LeaseStatus;
/** Metadata of a JobCall that is metered. */
const METERED = { "X-X402-PAYMENT-SCHEME": "upto", "X-X402-PAYMENT-AMOUNT": "1000" };

const LEASE_MS = 3_600_000;

/** A gateway whose answers a test writes: some that a real one gives only after a fault. */
async function startScriptedGateway() {
  /** Messages of each stream, the last one open. */
  const streams: RunnerMessage[][] = [];
  let open: ServerDuplexStream<RunnerMessage, GatewayMessage> | undefined;
  const server = new Server();
  server.addService(grpcServiceDefinition(RunnerService), {
    work(stream: ServerDuplexStream<RunnerMessage, GatewayMessage>) {
      const messages: RunnerMessage[] = [];
      stream.on("data", (message: RunnerMessage) => {
        if (messages.push(message) > 1) return;
        stream.sendMetadata(new Metadata());
        open = stream;
        streams.push(messages);
      });
      stream.on("end", () => stream.end()).on("error", () => undefined);
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    const onBound = (error: Error | null, bound: number) => (error ? reject(error) : resolve(bound));
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), onBound);
  });
  onTestFinished(() => server.forceShutdown());
  const send = (message: MessageInitShape<typeof GatewayMessageSchema>): void => {
    open?.write(create(GatewayMessageSchema, message));
  };
  const deliverWith = (metadata: Record<string, string>, ...callIds: number[]) =>
    send({
      jobCalls: callIds.map((callId) => ({
        ...{ callId: BigInt(callId), leaseToken: `lease ${callId}`, attempt: 1, metadata },
        leaseSecs: LEASE_MS / 1000,
      })),
    });
  return {
    address: `127.0.0.1:${port}`,
    streams,
    deliverWith,
    deliver: (...callIds: number[]) => deliverWith({}, ...callIds),
    answer: (statuses: NonNullable<MessageInitShape<typeof GatewayMessageSchema>["statuses"]>[number]) =>
      send({ statuses: [statuses] }),
    shutDown: () => server.forceShutdown(),
    breakStream: () => open?.emit("error", { code: status.UNAVAILABLE, details: "broken by the test" }),
    /** Messages of a stream that ask for something. */
    requests: (stream = 0) =>
      (streams[stream] ?? []).filter(
        (sent) => sent.acks.length + sent.nacks.length + sent.extends.length > 0,
      ),
  };
}

const idsOf = (parts: readonly { callId: bigint }[] | undefined): number[] =>
  (parts ?? []).map(({ callId }) => Number(callId));

/** A promise, and the function that resolves it. */
function latch() {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

test("Outcomes that are ready together share a message, up to fifteen", async () => {
  const { address, streams, deliver, answer, requests } = await startScriptedGateway();
  const ready = latch();
  let begun = 0;
  startRun(
    async ({ callId }) => {
      begun++;
      await ready.opened;
      if (callId % 2 === 0) throw new Error("even");
    },
    { address, concurrency: 20 },
  );
  await until(() => streams.length === 1);
  expect(streams[0]?.[0]?.subscribe).toMatchObject({ subscriber: "test", maxInFlight: 20, jobIds: [] });
  deliver(...Array.from({ length: 20 }, (_, index) => index + 1));
  await until(() => begun === 20);
  ready.open();
  await until(() => requests().length === 2);
  expect(requests().map(({ acks, nacks }) => acks.length + nacks.length)).toEqual([15, 5]);
  for (const { sequence, acks, nacks } of requests())
    answer({ sequence, acks: acks.map(() => DONE), nacks: nacks.map(() => DONE) });
});

test("After a broken stream, held leases are extended at once and outcomes without an answer are sent again", async () => {
  const { address, streams, deliver, answer, breakStream, requests } = await startScriptedGateway();
  const ready = latch();
  const aborted: number[] = [];
  const { lines } = startRun(
    async ({ callId, signal }) => {
      signal.addEventListener("abort", () => aborted.push(callId));
      if (callId !== 1) await ready.opened;
    },
    { address },
  );
  await until(() => streams.length === 1);
  deliver(1, 2, 3);
  await until(() => requests().length === 1);
  breakStream();
  await until(() => idsOf(requests(1).flatMap((sent) => sent.extends)).length === 2);
  const [sent] = requests(1);
  expect([idsOf(sent?.acks), idsOf(sent?.extends)]).toEqual([[1], [2, 3]]);
  expect(lines.filter((line) => line.startsWith("disconnected"))).toHaveLength(1);

  answer({ sequence: sent?.sequence ?? 0n, acks: [DONE], extends: [DONE, LEASE_LOST] });
  await until(() => aborted.length === 1);
  expect(aborted).toEqual([3]);
  ready.open();
  await until(() => requests(1).length === 2);
  expect(idsOf(requests(1)[1]?.acks)).toEqual([2]);
  answer({ sequence: requests(1)[1]?.sequence ?? 0n, acks: [DONE] });
});

test("A lease that jobgate does not extend in time is lost, and does not keep a stopped runner", async () => {
  const { address, streams, deliver, requests, shutDown } = await startScriptedGateway();
  const setTimer = vi.spyOn(globalThis, "setTimeout");
  onTestFinished(() => setTimer.mockRestore());
  const lost: number[] = [];
  const { ended, lines, stop } = startRun(
    async ({ callId, signal }) => {
      if (callId === 1) return;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      lost.push(callId);
    },
    { address },
  );
  await until(() => streams.length === 1);
  deliver(1, 2);
  await until(() => idsOf(requests()[0]?.acks).length === 1);
  shutDown();
  await until(() => lines.some((line) => line.startsWith("disconnected")));
  const expire = setTimer.mock.calls.filter(([, ms = 0]) => ms > LEASE_MS / 2 && ms <= LEASE_MS);
  for (const [callback] of expire) callback();
  await until(() => lost.length === 1);
  expect(lost).toEqual([2]);
  expect(lines.filter((line) => line.includes("JobCall"))).toEqual([
    "lease of JobCall 1 lost: jobgate did not extend it in time",
    "lease of JobCall 2 lost: jobgate did not extend it in time",
  ]);
  void stop();
  await ended;
});

test("Outcomes that jobgate could not store are sent again, and an outcome that jobgate refuses is logged with the reason", async () => {
  const { address, streams, deliver, answer, requests } = await startScriptedGateway();
  const ready = latch();
  let begun = 0;
  const { lines } = startRun(
    async () => {
      begun++;
      await ready.opened;
    },
    { address },
  );
  await until(() => streams.length === 1);
  deliver(1, 2);
  // Outcomes that are ready together share a message.
  await until(() => begun === 2);
  ready.open();
  await until(() => requests().length === 1);
  const sequenceOf = (index: number): bigint => requests()[index]?.sequence ?? 0n;
  answer({ sequence: sequenceOf(0), errorCode: status.UNAVAILABLE, errorMessage: "The disk is full." });
  await until(() => idsOf(requests().flatMap(({ acks }) => acks)).length === 4);
  expect(idsOf(requests()[1]?.acks)).toEqual([1, 2]);
  answer({ sequence: sequenceOf(1), acks: [DONE, INVALID_ARGUMENT], errorMessage: "This is bad." });
  await until(() => lines.some((line) => line.startsWith("outcome of JobCall")));
  expect(lines).toContain("outcome of JobCall 2 refused: This is bad.");
});

test("The last charge of a job that is metered goes with the extensions, and then with the ack", async () => {
  const { address, streams, deliverWith, answer, requests } = await startScriptedGateway();
  const ready = latch();
  startRun(
    async (job) => {
      job.charge(200);
      job.charge(250);
      job.progress(50);
      await ready.opened;
      job.charge({ basisPoints: 2_500 });
    },
    { address },
  );
  await until(() => streams.length === 1);
  deliverWith(METERED, 1);
  await until(() => requests().length === 1);
  const [extended] = requests();
  expect(extended?.extends[0]?.chargeSoFar?.amount).toEqual({ case: "units", value: "250" });
  answer({ sequence: extended?.sequence ?? 0n, extends: [DONE] });
  ready.open();
  await until(() => requests().length === 2);
  expect(requests()[1]?.acks[0]?.charge?.amount).toEqual({ case: "basisPoints", value: 2_500 });
  answer({ sequence: requests()[1]?.sequence ?? 0n, acks: [DONE] });
});

test.each([
  ["at most the ceiling", METERED, 1_001n, { case: "units", value: "1000" }],
  ["nothing", METERED, 0, { case: "units", value: "0" }],
  ["no amount for a job at a fixed price", { "X-X402-PAYMENT-SCHEME": "exact" }, 250, undefined],
  ["no amount for a webhook", {}, 250, undefined],
])("A handler that charges sends %s", async (_, metadata, charge, sent) => {
  const { address, streams, deliverWith, answer, requests } = await startScriptedGateway();
  const refused: unknown[] = [];
  startRun(
    (job) => {
      for (const bad of [-1, 0.5, Number.NaN, -1n, { basisPoints: 10_001 }, { basisPoints: 0.5 }])
        try {
          job.charge(bad);
        } catch (error) {
          refused.push(error);
        }
      job.charge(charge);
    },
    { address },
  );
  await until(() => streams.length === 1);
  deliverWith(metadata, 1);
  await until(() => requests().length === 1);
  expect(refused).toEqual(Array(6).fill(expect.any(RangeError)));
  expect(requests()[0]?.acks[0]?.charge?.amount).toEqual(sent);
  answer({ sequence: requests()[0]?.sequence ?? 0n, acks: [DONE] });
});

test("A job whose lease is extended twelve times has one listener on the end of its lease", async () => {
  const { address, streams, deliver, answer, requests } = await startScriptedGateway();
  const [extended, ready] = [latch(), latch()];
  let job: Job | undefined;
  startRun(
    async (given) => {
      job = given;
      extended.open();
      await ready.opened;
    },
    { address },
  );
  await until(() => streams.length === 1);
  deliver(1);
  await extended.opened;
  for (let round = 1; round <= 12; round++) {
    job?.progress(round);
    await until(() => requests().length === round);
    answer({ sequence: requests()[round - 1]?.sequence ?? 0n, extends: [DONE] });
    await until(() => getEventListeners(job?.signal ?? new EventTarget(), "abort").length === 0);
  }
  ready.open();
  await until(() => requests().length === 13);
  expect(getEventListeners(job?.signal ?? new EventTarget(), "abort")).toHaveLength(1);
  answer({ sequence: requests()[12]?.sequence ?? 0n, acks: [DONE] });
});
