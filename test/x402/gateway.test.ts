import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { ShopAddition } from "../../src/x402/part.ts";
import type { PaymentProtocol } from "../../src/x402/protocols/protocol.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { openTestGateway, startAnotherGateway } from "./gateway-harness.ts";

/** Stops the clock for the rest of the test, so that limits for a second and periodic work depend on no real time. */
function stopTime(): void {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
}

describe("An embedded gateway", () => {
  it("Starts and stops with its own socket, and answers health as text", async () => {
    const { gateway: embedded, url: base } = await startAnotherGateway();
    const health = await rawRequest(base, "GET /x402/health");
    expect(health).toMatchObject({ status: 200, body: "ok" });
    await embedded.stop();
    await embedded.stop();
    await expect(rawRequest(base, "GET /x402/health")).rejects.toThrow(/ECONNREFUSED/);
  });

  it("Leaves nothing running when its address is taken", async () => {
    const port = Number(new URL((await startAnotherGateway()).url).port);
    const second = await openTestGateway({
      config: { bindAddress: { kind: "tcp", host: "127.0.0.1", port } },
    });
    onTestFinished(() => second.stop());
    stopTime();
    await expect(second.gateway.start()).rejects.toThrow(/EADDRINUSE/);
    const listUndecided = vi.spyOn(second.store, "listUndecided");
    for (let secs = 0; secs < 10; secs++) {
      await vi.advanceTimersByTimeAsync(1_000);
      // Ends after the reads that periodic work has queued, so that its next timer is set before time advances.
      await second.store.totals();
    }
    expect(listUndecided).not.toHaveBeenCalled();
  });

  it("Does not start when two parts have one route, or the name of one protocol", async () => {
    const part = (addition: ShopAddition) => ({ open: () => addition });
    const startWith = async (added: ShopAddition) => {
      const { gateway, stop } = await openTestGateway({ parts: async () => [part(added), part(added)] });
      onTestFinished(() => stop());
      await gateway.start();
    };
    await expect(startWith({ routes: () => [["/honey", {}]] })).rejects.toThrow(
      "two parts of this build have the route /honey; expected one",
    );
    await expect(startWith({ protocols: { bees: {} as PaymentProtocol } })).rejects.toThrow(
      "have the protocol bees",
    );
  });

  it("Sells no restricted job that no part restricts, neither at its start nor after a reload", async () => {
    const parts = async () => [];
    const refusal = "job 1/1 is restricted, and no part of this build restricts jobs";
    const restricted = await openTestGateway({ parts, chainRpcUrl: "http://127.0.0.1:9" });
    onTestFinished(() => restricted.stop());
    await expect(restricted.gateway.start()).rejects.toThrow(refusal);

    const open = await startAnotherGateway({ parts });
    const { jobPolicies } = restricted.config;
    await expect(open.reload({ jobPolicies })).rejects.toThrow(refusal);
    expect((await open.post({}, { job: 1 })).status).toBe(402);
  });

  it("Answers 429 to a client that keeps sending requests without a payment", async () => {
    stopTime();
    const limits = { maxUnpaidPerSecondPerClient: 3, maxVerifiesPerClient: 1, maxVerifies: 1 };
    const other = await startAnotherGateway({ config: { limits } });
    const replies = await Promise.all(Array.from({ length: 6 }, () => other.post({})));
    expect(replies.map(({ status }) => status).sort()).toEqual([402, 402, 402, 429, 429, 429]);
    const limited = replies.find(({ status }) => status === 429);
    expect(limited?.body).toMatchObject({ code: "rate_limited", charged: false, retryable: true });
    expect(limited?.headers.get("retry-after")).toBe("1");
  });

  it("Keeps a client's counts across a reload", async () => {
    stopTime();
    const limits = { maxUnpaidPerSecondPerClient: 2, maxVerifiesPerClient: 1, maxVerifies: 1 };
    const other = await startAnotherGateway({ config: { limits } });
    const ask = async () => (await other.post({})).status;
    expect([await ask(), await ask(), await ask()]).toEqual([402, 402, 429]);
    await other.reload({ limits });
    expect(await ask()).toBe(429);
    await other.reload({ limits: { ...limits, maxUnpaidPerSecondPerClient: 100 } });
    expect(await ask()).toBe(402);
  });
});
