import { describe, expect, it } from "vitest";
import type { JobResult } from "../../../src/store/contract/work-queue.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTestGateway } from "../gateway-harness.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startTestGateway({ config: { facilitatorUrl: parts.facilitator.url } }));

describe("A paid call's state and result", () => {
  const ask = async (callId: unknown, receipt?: unknown, tail = "") => {
    const headers = receipt === undefined ? {} : { authorization: `Bearer ${receipt}` };
    return fetch(`${gateway.url}/x402/calls/${callId}${tail}`, { headers });
  };
  const claimOf = async (callId: unknown) => {
    const request = { limit: 100, jobIds: [], leaseMs: 60_000, maxAttempts: 1, subscriber: "test" };
    const lease = (await gateway.store.claim(request)).calls.find((call) => call.callId === callId);
    if (lease === undefined) throw new Error(`call ${callId} is not due`);
    return lease;
  };
  const buy = async () => (await gateway.post((await gateway.sign()).headers)).body;

  it("The holder of the receipt sees the call from queued to the runner's result, byte for byte", async () => {
    const { call_id, receipt } = await buy();
    const state = async () => (await ask(call_id, receipt)).json();
    expect(await state()).toEqual({
      call_id,
      state: "queued",
      attempt: 0,
      enqueued_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(await (await ask(call_id, receipt, "/result")).json()).toMatchObject({
      code: "result_not_ready",
      state: "queued",
    });

    const lease = await claimOf(call_id);
    expect(await state()).toMatchObject({ state: "running", attempt: 1 });
    const result: JobResult = { body: Buffer.from("<script>x</script>"), contentType: "text/html" };
    await gateway.store.ack(lease, result);
    expect(await state()).toMatchObject({ state: "succeeded", finished_at: expect.stringMatching(/Z$/) });

    const response = await ask(call_id, receipt, "/result");
    expect([response.status, await response.text()]).toEqual([200, "<script>x</script>"]);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/html",
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
      "cache-control": "no-store",
    });
  });

  it("A failed call is failed and has no result", async () => {
    const { call_id, receipt } = await buy();
    await gateway.store.fail(await claimOf(call_id), "no luck");
    expect(await (await ask(call_id, receipt)).json()).toMatchObject({ state: "failed" });
    expect((await ask(call_id, receipt, "/result")).status).toBe(404);
  });

  it("401 without a receipt; 404 with another call's or a wrong one, and for a webhook's call", async () => {
    const [mine, others] = [await buy(), await buy()];
    for (const tail of ["", "/result"]) {
      const refused = await ask(mine.call_id, undefined, tail);
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      for (const receipt of [
        others.receipt,
        "0".repeat(64),
        `${mine.receipt}0`,
        String(mine.receipt).toUpperCase(),
      ])
        expect(await (await ask(mine.call_id, receipt, tail)).json()).toMatchObject({
          code: "call_not_found",
        });
      const webhook = {
        origin: "webhook",
        jobId: 1n,
        serviceId: 1n,
        body: Buffer.from(""),
        metadata: {},
      } as const;
      const { callId } = (await gateway.store.accept(webhook)) as { callId: number };
      expect((await ask(callId, mine.receipt, tail)).status).toBe(404);
      expect((await ask(2 ** 53 - 1, mine.receipt, tail)).status).toBe(404);
    }
    const basic = await fetch(`${gateway.url}/x402/calls/${mine.call_id}`, {
      headers: { authorization: `Basic ${mine.receipt}` },
    });
    expect(basic.status).toBe(401);
  });
});
