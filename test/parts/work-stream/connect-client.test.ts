import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { type RunnerMessageSchema, RunnerService } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { startWorkDelivery } from "./harness.ts";

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
  const { address, accept, store } = await startWorkDelivery({ tokens: ["secret"] });
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
