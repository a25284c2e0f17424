import pino from "pino";
import { describe, expect, it, onTestFinished } from "vitest";
import { RESULT_CHUNK_BYTES } from "../../../src/core/job-call.ts";
import type { JobResult } from "../../../src/store/contract/work-queue.ts";
import { X402Gateway } from "../../../src/x402/gateway.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startAnotherGateway, startTestGateway } from "../gateway-harness.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startTestGateway({ config: { facilitatorUrl: parts.facilitator.url } }));

describe("A paid call's state and result", () => {
  const ask = async (callId: unknown, token?: unknown, tail = "") => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return fetch(`${gateway.url}/x402/calls/${callId}${tail}`, { headers });
  };
  const claimOf = async (callId: unknown) => {
    const request = { limit: 100, jobIds: [], leaseMs: 60_000, maxAttempts: 1, subscriber: "test" };
    const lease = (await gateway.store.claim(request)).calls.find((call) => call.callId === callId);
    if (lease === undefined) throw new Error(`call ${callId} is not due`);
    return lease;
  };
  const buy = async () => (await gateway.post((await gateway.sign()).headers)).body;

  it("The holder of the access token sees the call from queued to the runner's result, byte for byte", async () => {
    const { call_id, access_token } = await buy();
    const state = async () => (await ask(call_id, access_token)).json();
    expect(await state()).toEqual({
      call_id,
      state: "queued",
      attempt: 0,
      enqueued_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(await (await ask(call_id, access_token, "/result")).json()).toMatchObject({
      code: "result_not_ready",
      state: "queued",
    });

    const lease = await claimOf(call_id);
    expect(await state()).toMatchObject({ state: "running", attempt: 1 });
    const result: JobResult = { body: Buffer.from("<script>x</script>"), contentType: "text/html" };
    await gateway.store.ack(lease, result);
    expect(await state()).toMatchObject({ state: "succeeded", finished_at: expect.stringMatching(/Z$/) });

    const response = await ask(call_id, access_token, "/result");
    expect([response.status, await response.text()]).toEqual([200, "<script>x</script>"]);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/html",
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
      "cache-control": "private, no-store",
    });
  });

  it("A failed call says why, also after the operator dropped it, and has no result", async () => {
    const { call_id, access_token } = await buy();
    await gateway.store.fail(await claimOf(call_id), "no luck");
    const failed = { state: "failed", reason: "no luck" };
    const expectFailed = async () => {
      expect(await (await ask(call_id, access_token)).json()).toMatchObject(failed);
      expect(await (await ask(call_id, access_token, "/events")).text()).toContain('"reason":"no luck"');
      const refused = await ask(call_id, access_token, "/result");
      expect([refused.status, await refused.json()]).toEqual([
        410,
        { error: expect.any(String), code: "call_failed", retryable: false, ...failed },
      ]);
    };
    await expectFailed();
    await gateway.store.dropDeadLetter(Number(call_id));
    await expectFailed();
  });

  it("A result has its runner's status and headers, on …/result and on the paid request that waits", async () => {
    const signed = await gateway.sign();
    const { call_id, access_token } = (await gateway.post(signed.headers)).body;
    const result: JobResult = {
      body: Buffer.from('{"error":"no such city"}'),
      contentType: "application/json",
      status: 404,
      headers: [
        ["etag", '"1"'],
        ["location", "/cities"],
        ["link", "</a>"],
        ["link", "</b>"],
      ],
    };
    await gateway.store.ack(await claimOf(call_id), result);
    expect(await (await ask(call_id, access_token)).json()).toMatchObject({ state: "failed", status: 404 });
    const sent = { "content-type": "application/json", etag: '"1"', link: "</a>, </b>", location: "/cities" };
    const shown = await ask(call_id, access_token, "/result");
    expect([shown.status, await shown.text()]).toEqual([404, '{"error":"no such city"}']);
    expect(Object.fromEntries(shown.headers)).toMatchObject({ ...sent, "x-call-id": String(call_id) });
    const resent = await gateway.post({ ...signed.headers, prefer: "wait=60" });
    expect([resent.status, resent.body]).toEqual([404, { error: "no such city" }]);
    expect(Object.fromEntries(resent.headers)).toMatchObject({ ...sent, "x-access-token": access_token });
  });

  it("A range of a result and a known result are answered as HTTP defines it, on a resend too", async () => {
    const signed = await gateway.sign();
    const { call_id, access_token } = (await gateway.post(signed.headers)).body;
    await gateway.store.ack(await claimOf(call_id), {
      body: Buffer.from("0123456789"),
      contentType: "text/plain",
    });
    const get = (headers: Record<string, string>) =>
      fetch(`${gateway.url}/x402/calls/${call_id}/result`, {
        headers: { authorization: `Bearer ${access_token}`, ...headers },
      });
    const whole = await get({});
    const etag = String(whole.headers.get("etag"));
    expect([etag, whole.headers.get("accept-ranges")]).toEqual([
      expect.stringMatching(/^"\d+-\d+"$/),
      "bytes",
    ]);
    const known = await get({ "if-none-match": etag });
    expect([known.status, known.headers.get("etag"), await known.text()]).toEqual([304, etag, ""]);
    const range = await get({ range: "bytes=2-4" });
    expect([range.status, range.headers.get("content-range"), await range.text()]).toEqual([
      206,
      "bytes 2-4/10",
      "234",
    ]);
    const beyond = await get({ range: "bytes=10-" });
    expect([beyond.status, beyond.headers.get("content-range")]).toEqual([416, "bytes */10"]);
    const resent = await gateway.post({ ...signed.headers, prefer: "wait=60", range: "bytes=2-4" });
    expect([resent.status, resent.body]).toEqual([206, 234]);
    const again = { ...signed.headers, prefer: "wait=60", "if-none-match": etag };
    const unchanged = await fetch(gateway.jobUrl(), { method: "POST", headers: again, body: "work" });
    expect(unchanged.status).toBe(304);
  });

  it("A large result, and a range of it, are read from its chunks", async () => {
    const { call_id, access_token } = await buy();
    const lease = await claimOf(call_id);
    const bytes = Buffer.from(Array.from({ length: 5 * RESULT_CHUNK_BYTES + 7 }, (_, index) => index % 251));
    for (let place = 0; place <= 5; place += 1)
      await gateway.store.appendResult(
        lease,
        place,
        bytes.subarray(place * RESULT_CHUNK_BYTES, (place + 1) * RESULT_CHUNK_BYTES),
      );
    const result = { body: new Uint8Array(), storedBytes: bytes.length, contentType: "application/zip" };
    await gateway.store.ack(lease, result);
    const get = async (headers: Record<string, string> = {}) => {
      const response = await fetch(`${gateway.url}/x402/calls/${call_id}/result`, {
        headers: { authorization: `Bearer ${access_token}`, ...headers },
      });
      return { response, body: Buffer.from(await response.arrayBuffer()) };
    };
    const whole = await get();
    expect([whole.response.status, whole.response.headers.get("content-length")]).toEqual([
      200,
      String(bytes.length),
    ]);
    expect(whole.body.equals(bytes)).toBe(true);
    const first = RESULT_CHUNK_BYTES - 3;
    const part = await get({ range: `bytes=${first}-${first + RESULT_CHUNK_BYTES}` });
    expect([part.response.status, part.response.headers.get("content-range")]).toEqual([
      206,
      `bytes ${first}-${first + RESULT_CHUNK_BYTES}/${bytes.length}`,
    ]);
    expect(part.body.equals(bytes.subarray(first, first + RESULT_CHUNK_BYTES + 1))).toBe(true);
  });

  it("A call whose result was pruned has expired, and its payment still buys no second job", async () => {
    const signed = await gateway.sign();
    const { call_id, access_token } = (await gateway.post(signed.headers)).body;
    await gateway.store.ack(await claimOf(call_id), { body: Buffer.from("1"), contentType: "text/plain" });
    while ((await gateway.store.prune({ kind: "results", ageMs: -1, after: 0 })).removed === 0);
    for (const tail of ["", "/result", "/events"]) {
      const refused = await ask(call_id, access_token, tail);
      expect([refused.status, await refused.json()]).toEqual([
        410,
        { error: expect.any(String), code: "call_expired", retryable: false },
      ]);
    }
    expect((await ask(call_id, "wrong")).status).toBe(404);
    const again = await gateway.post({ ...signed.headers, prefer: "wait=60" });
    expect([again.status, again.body]).toMatchObject([202, { call_id, access_token }]);
  });

  it("A call that succeeded without a result has an empty one", async () => {
    const { call_id, access_token } = await buy();
    await gateway.store.ack(await claimOf(call_id));
    const response = await ask(call_id, access_token, "/result");
    expect([response.status, await response.text()]).toEqual([200, ""]);
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
  });

  it("401 without a token; 404 with another's, a wrong one or the receipt, and for a webhook's call", async () => {
    const [mine, others] = [await buy(), await buy()];
    const webhook = {
      origin: "webhook",
      jobId: 1n,
      serviceId: 1n,
      body: Buffer.from(""),
      metadata: {},
    } as const;
    const { callId } = (await gateway.store.accept(webhook)) as { callId: number };
    for (const tail of ["", "/result"]) {
      const refused = await ask(mine.call_id, undefined, tail);
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      const wrong = [others.access_token, mine.receipt, `${mine.access_token}0`];
      for (const token of wrong)
        expect(await (await ask(mine.call_id, token, tail)).json()).toMatchObject({ code: "call_not_found" });
      expect((await ask(callId, mine.access_token, tail)).status).toBe(404);
      expect((await ask(2 ** 53 - 1, mine.access_token, tail)).status).toBe(404);
    }
    const basic = await fetch(`${gateway.url}/x402/calls/${mine.call_id}`, {
      headers: { authorization: `Basic ${mine.access_token}` },
    });
    expect(basic.status).toBe(401);
  });
});

describe("An access token", () => {
  it("Is the same on a resend and after a restart on the same store, and differs from every other call's", async () => {
    const { headers } = await gateway.sign();
    const first = (await gateway.post(headers)).body;
    expect(first.access_token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect((await gateway.post(headers)).body).toEqual(first);
    const restarted = new X402Gateway({
      config: { ...gateway.config, bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 } },
      store: gateway.store,
      logger: pino({ level: "silent" }),
    });
    await restarted.start();
    onTestFinished(() => restarted.stop());
    const url = `http://${restarted.address}`;
    const again = await fetch(`${url}/x402/jobs/1/0`, { method: "POST", headers, body: "work" });
    expect(await again.json()).toEqual(first);
    const authorization = `Bearer ${first.access_token}`;
    expect((await fetch(`${url}/x402/calls/${first.call_id}`, { headers: { authorization } })).status).toBe(
      200,
    );

    const other = await startAnotherGateway({ config: { facilitatorUrl: parts.facilitator.url } });
    const elsewhere = (await other.post((await other.sign()).headers)).body;
    expect(elsewhere.access_token).not.toBe(first.access_token);
  });

  it("Wrong ones are 429 with Retry-After above 20 in 10 s from one address; the right one still opens its call", async () => {
    const limited = await startAnotherGateway({ config: { facilitatorUrl: parts.facilitator.url } });
    const { call_id, access_token } = (await limited.post((await limited.sign()).headers)).body;
    const ask = (token: unknown) =>
      fetch(`${limited.url}/x402/calls/${call_id}`, { headers: { authorization: `Bearer ${token}` } });
    const statuses: number[] = [];
    for (let n = 0; n < 20; n++) statuses.push((await ask(`wrong${n}`)).status);
    expect(new Set(statuses)).toEqual(new Set([404]));
    const refused = await ask("wrong");
    expect([refused.status, await refused.json()]).toMatchObject([429, { code: "rate_limited" }]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect((await ask(access_token)).status).toBe(200);
  });
});
