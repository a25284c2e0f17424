import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { LeaseStatus, RunnerService } from "../../src/gen/jobgate/v1/runner_pb.ts";
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
