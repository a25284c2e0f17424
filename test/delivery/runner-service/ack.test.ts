import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import type { CalledJob } from "../../../src/store/contract/work-queue.ts";
import { until } from "../../helpers/until.ts";
import { paidId } from "../../store/store-fixtures.ts";
import { startDelivery } from "../harness.ts";

const { DONE, LEASE_LOST, NOT_FOUND } = LeaseStatus;
const MIB = 1024 * 1024;

describe("Ack", () => {
  test("An acked JobCall is gone, and a second Ack is NOT_FOUND", async () => {
    const { store, accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const call = await (await runner.subscribe()).next();
    expect(await runner.ack(call)).toEqual([DONE]);
    expect(await runner.ack(call)).toEqual([NOT_FOUND]);
    expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
  });

  test("Each lease of a batch has its own status, in order, and an invalid one does not affect the others", async () => {
    const { accept, connect } = await startDelivery();
    await accept();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const [first, second] = [await stream.next(), await stream.next()];
    expect(
      await runner.ack(
        { callId: 0n, leaseToken: "x" },
        { callId: 2n ** 60n, leaseToken: first.leaseToken },
        first,
        { callId: second.callId, leaseToken: "forged" },
        second,
      ),
    ).toEqual([NOT_FOUND, NOT_FOUND, DONE, LEASE_LOST, DONE]);
  });

  test("A result of several MiB is accepted for a job that allows it, and is there once the Ack is answered", async () => {
    const maxResultBytes = ({ origin, jobId }: CalledJob) =>
      origin === "x402" && jobId === 7n ? 3 * MIB : MIB;
    const { store, connect, accept } = await startDelivery({ maxResultBytes });
    const callId = await paidId(store, 1);
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const [large, webhook] = [await stream.next(), await stream.next()];
    const result = { body: Buffer.alloc(3 * MIB, "x"), contentType: "image/png" };
    const message = (bytes: number, most: number) =>
      expect.stringContaining(`There are ${bytes} bytes in a result: at most ${most} are taken.`);
    await expect(runner.ack(large, { ...webhook, result })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      message: message(3 * MIB, MIB),
    });
    await expect(runner.ack({ ...large, result: { body: Buffer.alloc(3 * MIB + 1) } })).rejects.toMatchObject(
      { message: message(3 * MIB + 1, 3 * MIB) },
    );
    expect(await runner.ack({ ...large, result })).toEqual([DONE]);
    expect(await store.findResult(callId)).toMatchObject({ size: 3 * MIB, contentType: "image/png" });
    expect(await store.readResult(callId, 3 * MIB - 1, 9)).toEqual(new Uint8Array(Buffer.from("x")));
    expect(await runner.ack({ ...large, result })).toEqual([NOT_FOUND]);
  });

  test("Status and headers of an Ack are kept with its result, without headers that are not the runner's", async () => {
    const { accept, connect, store } = await startDelivery();
    const acked: unknown[] = [];
    const { ack } = store;
    store.ack = (lease, ...rest) => {
      acked.push(rest[0]);
      return ack.call(store, lease, ...rest);
    };
    await accept();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const headers = [
      { name: "ETag", value: '"1"' },
      { name: "Set-Cookie", value: "a=b" },
    ];
    expect(await runner.ack({ ...(await stream.next()), status: 404, headers })).toEqual([DONE]);
    expect(await runner.ack(await stream.next())).toEqual([DONE]);
    const body = new Uint8Array();
    const sent = { status: 404, headers: [["etag", '"1"']], contentType: "application/octet-stream", body };
    expect(acked).toEqual([sent, undefined]);
  });

  test.each([
    [{ status: 199 }, "status is 199: expected 200 to 599."],
    [{ headers: [{ name: "a b", value: "" }] }, '"a b" is not the name of a header.'],
    [
      { headers: [{ name: "a", value: "b\r\nc: d" }] },
      "the value of a has a character that a header cannot have.",
    ],
  ])("An Ack with %j is refused, and its lease is kept", async (fields, problem) => {
    const { accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const call = await (await runner.subscribe()).next();
    const message = expect.stringContaining(problem);
    await expect(runner.ack({ ...call, ...fields })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      message,
    });
    expect(await runner.ack(call)).toEqual([DONE]);
  });

  test("An empty request is answered with an empty list", async () => {
    const { connect } = await startDelivery();
    expect(await connect().ack()).toEqual([]);
  });

  test("An Ack with one call's id and another's token neither finishes a JobCall nor frees a slot", async () => {
    const { store, accept, connect } = await startDelivery();
    for (let index = 0; index < 3; index++) await accept();
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 2 });
    const [first, second] = [await stream.next(), await stream.next()];
    expect(await runner.ack({ callId: first.callId, leaseToken: second.leaseToken })).toEqual([LEASE_LOST]);
    expect((await store.totals()).calls).toMatchObject({ ready: 1, leased: 2 });
    // The third JobCall goes to another runner.
    expect((await (await connect().subscribe()).next()).attempt).toBe(1);
    expect(stream.calls).toHaveLength(2);
  });

  test("A late Ack is LEASE_LOST and leaves the next delivery alone", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 150, maxAttempts: 1_000 });
    await accept();
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 1 });
    const first = await stream.next();
    const second = await stream.next();
    expect(second).toMatchObject({ callId: first.callId, attempt: 2 });
    expect(await runner.ack(first)).toEqual([LEASE_LOST]);
    // On a slow machine the second lease may have ended as well.
    await until(async () => (await runner.ack(stream.calls.at(-1) ?? second))[0] === DONE);
  });

  test("Results of 1 MiB are accepted, several in one request", async () => {
    const { accept, connect } = await startDelivery();
    const runner = connect();
    const stream = await runner.subscribe();
    for (let index = 0; index < 8; index++) await accept();
    await until(() => stream.calls.length === 8);
    const result = { body: Buffer.alloc(MIB), contentType: "image/png" };
    const statuses = await runner.ack(...stream.calls.map((call) => ({ ...call, result })));
    expect(statuses).toEqual(Array(8).fill(DONE));
  });

  test("An Ack with a 2 MiB result is refused, and every lease of the request is kept", async () => {
    const { store, accept, connect } = await startDelivery();
    await accept();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const [first, second] = [await stream.next(), await stream.next()];
    await expect(
      runner.ack(first, { ...second, result: { body: Buffer.alloc(2 * MIB) } }),
    ).rejects.toMatchObject({ code: status.INVALID_ARGUMENT, details: expect.stringContaining("1048576") });
    expect((await store.totals()).calls.leased).toBe(2);
    expect(await runner.ack(first, second)).toEqual([DONE, DONE]);
  });

  test.each(["text", "text/html\r\nX-Evil: 1", `a/${"b".repeat(300)}`])(
    "An invalid content type (%j) is refused, because it would become a response header",
    async (contentType) => {
      const { connect } = await startDelivery();
      const ack = connect().ack({ callId: 1n, leaseToken: "x", result: { contentType } });
      await expect(ack).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    },
  );
});
