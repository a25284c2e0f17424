import { buffer } from "node:stream/consumers";
import { create } from "@bufbuild/protobuf";
import { decodePaymentResponseHeader } from "@x402/core/http";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  AckRequestSchema,
  ExtendRequestSchema,
  type JobCall,
  NackRequestSchema,
} from "../../src/gen/jobgate/v1/runner_pb.ts";
import { ResultWaits } from "../../src/x402/calls/wait-for-result.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV1Payment } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { openEvents } from "../helpers/server-sent-events.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { type Payment, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
/** Answers each pushed job with its body in reverse. */
const target = startBeforeAll(() =>
  listenHttp({
    handler: (request, response) =>
      void buffer(request).then((body) => {
        response.writeHead(200, { "content-type": "image/x-pushed; a=b" }).end(body.reverse());
      }),
  }),
);
// Each JobCall of job 0 is left to the test.
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle: () => new Promise(() => {}),
    // Only events wake a client that waits.
    periods: { callPollMs: 3_600_000 },
    edit: (config) =>
      // Nobody acks what the last test leaves behind.
      `${config.replace("[runner]", "[runner]\ndrain_secs = 0")}
[[push]]
url = "${target.url}"
job_ids = [1]
`,
  }),
);

const PREFER_60: Record<string, string> = { prefer: "wait=60" };

function post(
  payment: Pick<Payment, "headers">,
  body: string,
  headers: Record<string, string> = PREFER_60,
  signal = AbortSignal.timeout(50_000),
): Promise<Response> {
  return fetch(gateway.urlOf(), {
    method: "POST",
    headers: { ...payment.headers, ...headers },
    body,
    signal,
  });
}

async function delivery(body: string): Promise<JobCall> {
  const [call] = await gateway.waitForJobs(body);
  return call as JobCall;
}

async function ack({ callId, leaseToken }: JobCall, result?: { body: Uint8Array; contentType?: string }) {
  const acked = { callId, leaseToken, ...(result && { result }) };
  await gateway.runner.ack(create(AckRequestSchema, { acks: [acked] }));
}

async function fail({ callId, leaseToken }: JobCall) {
  const outcome = { case: "fail", value: { reason: "no good" } } as const;
  await gateway.runner.nack(create(NackRequestSchema, { nacks: [{ callId, leaseToken, outcome }] }));
}

/** The returned function tells whether jobgate has begun since to hold a request for its result. */
function watchWaits(): () => boolean {
  const waits = vi.spyOn(ResultWaits.prototype, "waitFor");
  onTestFinished(() => waits.mockRestore());
  return () => waits.mock.calls.length > 0;
}

/** Headers that describe a waiting client's purchase and wait. */
function told(response: Response) {
  const { headers } = response;
  const settlement = headers.get("payment-response");
  return {
    status: response.status,
    applied: headers.get("preference-applied"),
    callId: headers.get("x-call-id"),
    receipt: headers.get("x-receipt"),
    accessToken: headers.get("x-access-token"),
    transaction: settlement && decodePaymentResponseHeader(settlement).transaction,
  };
}

describe("A client that prefers to wait", () => {
  it("Gets the result once the runner is done, with the fields of the 202 in headers; a resend gets it too", async () => {
    const payment = await gateway.sign();
    const answer = post(payment, "in time");
    const call = await delivery("in time");
    const result = Buffer.from([0, 255, 60, 98, 62]);
    await ack(call, { body: result, contentType: "image/x-own; a=b" });

    const response = await answer;
    expect(told(response)).toEqual({
      status: 200,
      applied: "wait=60",
      callId: String(call.callId),
      receipt: call.metadata["X-X402-QUOTE-DIGEST"],
      accessToken: expect.stringMatching(/^[\w-]{43}$/),
      transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      location: `/x402/calls/${call.callId}`,
      "content-type": "image/x-own; a=b",
      "content-length": "5",
      "cache-control": "private, no-store",
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
    });
    expect(Buffer.from(await response.arrayBuffer())).toEqual(result);

    const again = await post(payment, "in time", { prefer: "wait=3" });
    expect(told(again)).toEqual({ ...told(response), applied: "wait=3" });
    expect(Buffer.from(await again.arrayBuffer())).toEqual(result);
    const withoutPrefer = await post(payment, "in time", {});
    expect(told(withoutPrefer)).toMatchObject({ status: 202, applied: null, callId: null });
    expect(await withoutPrefer.json()).toMatchObject({
      call_id: Number(call.callId),
      access_token: told(response).accessToken,
    });
    expect(gateway.jobsWith("in time")).toHaveLength(1);
  });

  it("Is answered when the runner is done, not at the next poll, and so is a client that reads its call's events", async () => {
    const payment = await gateway.sign();
    const answer = post(payment, "prompt");
    const call = await delivery("prompt");
    const { access_token } = await gateway.send(payment, { body: "prompt" });
    const stream = await openEvents(`${gateway.jobgate.x402Url}/x402/calls/${call.callId}/events`, {
      authorization: `Bearer ${access_token}`,
    });
    expect(await stream.next()).toMatchObject({ event: "running" });
    const { callId, leaseToken } = call;
    const leases = [{ callId, leaseToken, progress: { percent: 50, text: "half" } }];
    await gateway.runner.extend(create(ExtendRequestSchema, { leases }));
    expect((await stream.next())?.data).toMatchObject({ progress: { percent: 50, text: "half" } });
    await ack(call, { body: Buffer.from("done") });
    expect((await stream.rest()).map(({ event }) => event)).toEqual(["succeeded"]);
    expect((await answer).status).toBe(200);
  });

  it("Gets an empty 200 when the runner gives no result", async () => {
    const payment = await gateway.sign();
    const answer = post(payment, "no result");
    await ack(await delivery("no result"));
    const response = await answer;
    expect(told(response)).toMatchObject({ status: 200, callId: expect.stringMatching(/^\d+$/) });
    expect((await response.arrayBuffer()).byteLength).toBe(0);
  });

  it("Gets the 202 when its time is over, and the result by waiting again", async () => {
    const payment = await gateway.sign();
    const startedAt = performance.now();
    const response = await post(payment, "too slow", { prefer: "respond-async, wait=1" });
    const tookMs = performance.now() - startedAt;
    const body = await response.json();
    expect(told(response)).toMatchObject({ status: 202, applied: "wait=1", callId: null, receipt: null });
    expect(body).toEqual({
      status: "accepted",
      receipt: expect.stringMatching(/^[0-9a-f]{64}$/),
      service_id: 1,
      job_index: 0,
      call_id: expect.any(Number),
      access_token: expect.stringMatching(/^[\w-]{43}$/),
      links: expect.anything(),
    });
    expect(tookMs).toBeGreaterThan(990);

    const isHeld = watchWaits();
    const again = post(payment, "too slow");
    await until(isHeld);
    await ack(await delivery("too slow"), { body: Buffer.from("late") });
    expect(await (await again).text()).toBe("late");
  });

  it("Gets the 202 at once when the job fails", async () => {
    const payment = await gateway.sign();
    const answer = post(payment, "fails");
    await fail(await delivery("fails"));
    expect(told(await answer)).toMatchObject({ status: 202, applied: "wait=60" });
  });

  it("Is refused without a payment, without waiting", async () => {
    const response = await post({ headers: {} }, "unpaid");
    expect(told(response)).toMatchObject({ status: 402, applied: null });
  });

  it("Gets the version 1 header for a version 1 payment", async () => {
    const { v1 } = await requestOffer(gateway.urlOf());
    const validBefore = String(Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000)) + 300);
    const payment = await signV1Payment({
      offer: v1,
      account: accounts.payer,
      authorization: { validBefore },
    });
    const answer = post(payment, "version 1");
    await ack(await delivery("version 1"), { body: Buffer.from("one") });
    const response = await answer;
    expect(told(response)).toMatchObject({ status: 200, applied: "wait=60", transaction: null });
    const settlement = decodePaymentResponseHeader(response.headers.get("x-payment-response") ?? "");
    expect(settlement).toMatchObject({ success: true, network: "base-sepolia" });
  });

  it("Can hang up: the job runs, and others who wait for it get its result", async () => {
    const payment = await gateway.sign();
    const leaving = new AbortController();
    const first = post(payment, "hang up", PREFER_60, leaving.signal);
    const call = await delivery("hang up");
    // With the first, as many as may wait for one call.
    const others = Array.from({ length: 19 }, () => post(payment, "hang up"));
    leaving.abort();
    await expect(first).rejects.toThrow();
    await ack(call, { body: Buffer.from("still here") });
    for (const other of await Promise.all(others)) expect(await other.text()).toBe("still here");
  });

  it("Gets the answer of a runner that its job is pushed to, with its content type", async () => {
    const payment = await gateway.sign({ job: 1 });
    // The other runner takes every job.
    gateway.runner.kill();
    const headers = { ...payment.headers, ...PREFER_60 };
    const response = await fetch(gateway.urlOf(1), { method: "POST", headers, body: "pushed" });
    await gateway.replaceRunner();
    expect(told(response)).toMatchObject({ status: 200, applied: "wait=60" });
    expect(response.headers.get("content-type")).toBe("image/x-pushed; a=b");
    expect(await response.text()).toBe("dehsup");

    const { callId } = told(response);
    const authorization = `Bearer ${told(response).accessToken}`;
    const result = await fetch(`${gateway.jobgate.x402Url}/x402/calls/${callId}/result`, {
      headers: { authorization },
    });
    expect(result.headers.get("content-type")).toBe("image/x-pushed; a=b");
    expect(await result.text()).toBe("dehsup");
  });

  it("Gets the 202 at once when jobgate stops", async () => {
    const payment = await gateway.sign();
    const isHeld = watchWaits();
    const answer = post(payment, "stopping", { prefer: "wait=60" });
    await delivery("stopping");
    await until(isHeld);
    gateway.jobgate.kill("SIGTERM");
    expect(told(await answer)).toMatchObject({ status: 202, applied: "wait=60" });
  });
});
