import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { LeaseStatus, type RunnerMessageSchema, RunnerService } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { startDelivery } from "./harness.ts";

test("A runner built on connect-es subscribes, works and acks", async () => {
  const { address, accept, store } = await startDelivery({ tokens: ["secret"] });
  const client = createClient(RunnerService, createGrpcTransport({ baseUrl: `http://${address}` }));
  const headers = { authorization: "Bearer secret" };
  const abort = new AbortController();
  for (let index = 0; index < 20; index++) await accept({ body: Buffer.from(`job ${index}`) });

  const bodies: string[] = [];
  for await (const call of client.subscribe(
    { subscriber: "connect", maxInFlight: 2 },
    { headers, signal: abort.signal },
  )) {
    const { callId, leaseToken } = call;
    bodies.push(Buffer.from(call.body).toString());
    const { statuses } = await client.ack({ acks: [{ callId, leaseToken }] }, { headers });
    expect(statuses).toEqual([LeaseStatus.DONE]);
    if (bodies.length === 20) break;
  }
  abort.abort();
  expect(bodies).toEqual(Array.from({ length: 20 }, (_, index) => `job ${index}`));
  expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
});

/** Yields what is pushed, until it is ended. */
class Outbox<Message> implements AsyncIterable<Message> {
  readonly #messages: (Message | undefined)[] = [];
  #wake: () => void = () => undefined;

  push(message: Message | undefined): void {
    this.#messages.push(message);
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message> {
    for (;;) {
      while (this.#messages.length === 0)
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      const message = this.#messages.shift();
      if (message === undefined) return;
      yield message;
    }
  }
}

test("A runner built on connect-es works over Work, and ends it", async () => {
  const { address, accept, store } = await startDelivery({ tokens: ["secret"] });
  const client = createClient(RunnerService, createGrpcTransport({ baseUrl: `http://${address}` }));
  for (let index = 0; index < 20; index++) await accept();
  const outbox = new Outbox<MessageInitShape<typeof RunnerMessageSchema>>();
  outbox.push({ subscribe: { subscriber: "connect", maxInFlight: 3 } });
  let sequence = 0n;
  let done = 0;
  for await (const message of client.work(outbox, { headers: { authorization: "Bearer secret" } })) {
    const acks = message.jobCalls.map(({ callId, leaseToken }) => ({ callId, leaseToken }));
    if (acks.length > 0) outbox.push({ sequence: ++sequence, acks });
    for (const statuses of message.statuses) done += statuses.acks.length;
    if (done === 20) outbox.push(undefined);
  }
  expect(done).toBe(20);
  expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
});
