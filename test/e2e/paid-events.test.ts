import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { afterEach, describe, expect, it } from "vitest";
import {
  AckRequestSchema,
  type ExtendRequest_ProgressSchema,
  ExtendRequestSchema,
  type JobCall,
  LeaseStatus,
  NackRequestSchema,
} from "../../src/gen/jobgate/v1/runner_pb.ts";
import { accounts, newAccount } from "../helpers/accounts.ts";
import { eventually } from "../helpers/eventually.ts";
import { type EventStream, openEvents } from "../helpers/server-sent-events.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
// Each JobCall is left to the test.
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => config.replace("[runner]", "[runner]\ndrain_secs = 0.2"),
    handle: () => new Promise(() => {}),
  }),
);
const open = new Set<EventStream>();
afterEach(() => {
  for (const stream of open) stream.close();
  open.clear();
});

interface Bought {
  readonly callId: number;
  readonly accessToken: string;
  /** The last delivery. */
  delivery(attempt?: number): Promise<JobCall>;
}

async function buy(body: string, account = accounts.payer): Promise<Bought> {
  const { call_id, access_token } = await gateway.send(await gateway.sign({ account }), { body });
  const delivery = async (attempt = 1) => (await gateway.waitForJobs(body, attempt)).at(-1) as JobCall;
  return { callId: call_id as number, accessToken: access_token as string, delivery };
}

const urlOf = (callId: number, tail = "") => `${gateway.jobgate.x402Url}/x402/calls/${callId}${tail}`;

async function watch(
  { callId, accessToken }: Bought,
  headers: Record<string, string> = {},
): Promise<EventStream> {
  const stream = await openEvents(urlOf(callId, "/events"), {
    authorization: `Bearer ${accessToken}`,
    ...headers,
  });
  open.add(stream);
  return stream;
}

async function state({ callId, accessToken }: Bought): Promise<Record<string, unknown>> {
  const response = await fetch(urlOf(callId), { headers: { authorization: `Bearer ${accessToken}` } });
  return (await response.json()) as Record<string, unknown>;
}

const named = ({ callId, leaseToken }: JobCall) => ({ callId, leaseToken });
const ack = (call: JobCall) => gateway.runner.ack(create(AckRequestSchema, { acks: [named(call)] }));
async function tell(call: JobCall, progress: MessageInitShape<typeof ExtendRequest_ProgressSchema>) {
  const request = create(ExtendRequestSchema, { leases: [{ ...named(call), progress }] });
  expect((await gateway.runner.extend(request)).statuses).toEqual([LeaseStatus.DONE]);
}
async function nack(call: JobCall, outcome: "retry" | "fail") {
  const value = { case: outcome, value: { reason: "no good" } } as const;
  await gateway.runner.nack(create(NackRequestSchema, { nacks: [{ ...named(call), outcome: value }] }));
}

/** Reads on until an event of this kind. */
async function until(stream: EventStream, wanted: string) {
  for (let read = 0; read < 20; read++) {
    const event = await stream.next();
    if (event?.event === wanted) return event;
  }
  throw new Error(`no ${wanted} among 20 events`);
}

describe("The events of a paid call", () => {
  it("Report progress, retry and end at once, and agree with its state", async () => {
    const bought = await buy("whole way");
    const first = await bought.delivery();
    const stream = await watch(bought);
    expect((await until(stream, "running")).data).toMatchObject({ call_id: bought.callId, attempt: 1 });

    await tell(first, { percent: 0, text: "Größe <b>\n\ndata: 😀" });
    const progress = { percent: 0, text: "Größe <b>\n\ndata: 😀" };
    const event = await stream.next();
    expect(event).toMatchObject({ event: "running", data: { attempt: 1, progress } });
    expect(await state(bought)).toEqual(event?.data);
    await tell(first, { percent: 100 });
    expect((await stream.next())?.data).toMatchObject({ progress: { percent: 100, text: "" } });

    await nack(first, "retry");
    const second = await bought.delivery(2);
    const again = await until(stream, "running");
    expect(again.data).toMatchObject({ attempt: 2 });
    expect(again.data).not.toHaveProperty("progress");
    await ack(second);
    const [last, ...others] = await stream.rest();
    expect(others).toEqual([]);
    expect(last).toMatchObject({
      id: "succeeded-2",
      event: "succeeded",
      data: { finished_at: expect.any(String) },
    });
    expect(await state(bought)).toEqual(last?.data);
    expect((await watch(bought, { "last-event-id": "succeeded-2" })).status).toBe(204);
  });

  it("End with failed for a job that failed", async () => {
    const bought = await buy("fails");
    const stream = await watch(bought);
    await nack(await bought.delivery(), "fail");
    expect((await stream.rest()).at(-1)).toMatchObject({ event: "failed", id: "failed-1" });
  });

  it("Need the access token: 401 without one, 404 with another's, and neither tells whether the call exists", async () => {
    const [bought, other] = [await buy("mine"), await buy("another's")];
    const ask = async (callId: number, headers: Record<string, string>) => {
      const response = await fetch(urlOf(callId, "/events"), { headers });
      return [response.status, ((await response.json()) as { code: string }).code];
    };
    expect(await ask(bought.callId, {})).toEqual([401, "unauthorized"]);
    const foreign = { authorization: `Bearer ${other.accessToken}` };
    expect(await ask(bought.callId, foreign)).toEqual([404, "call_not_found"]);
    expect(await ask(bought.callId + 1_000, foreign)).toEqual([404, "call_not_found"]);
    const post = await fetch(urlOf(bought.callId, "/events"), { method: "POST" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET"]);
    const slash = await fetch(urlOf(bought.callId, "/events/"), { headers: foreign });
    expect(slash.status).toBe(404);
    for (const { delivery } of [bought, other]) await ack(await delivery());
  });

  it("20 open streams of one call all get events, and leave nothing behind when their clients hang up", async () => {
    const account = newAccount();
    await parts.usdc.mint(account.address, AMOUNT);
    const bought = await buy("crowd", account);
    const call = await bought.delivery();
    const streams = await Promise.all(Array.from({ length: 20 }, () => watch(bought)));
    expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200));
    for (const stream of streams) await until(stream, "running");
    expect(
      await fetch(urlOf(bought.callId, "/events"), {
        headers: { authorization: `Bearer ${bought.accessToken}` },
      }).then((response) => response.json()),
    ).toMatchObject({ code: "too_many_waits" });

    await tell(call, { percent: 50, text: "half" });
    for (const stream of streams) {
      expect((await stream.next())?.data).toMatchObject({ progress: { percent: 50, text: "half" } });
    }
    for (const stream of streams) stream.close();
    await eventually(async () => expect((await watch(bought)).status).toBe(200));
    await ack(call);
  });

  it("End at once when jobgate stops", async () => {
    const bought = await buy("stopping");
    await bought.delivery();
    const stream = await watch(bought);
    await until(stream, "running");
    gateway.jobgate.kill("SIGTERM");
    expect(await stream.rest()).toEqual([]);
  });
});
