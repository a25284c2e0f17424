import { describe, expect, it, onTestFinished, vi } from "vitest";
import { rawRequest } from "../helpers/raw-request.ts";
import { openTestGateway, startAnotherGateway } from "./gateway-harness.ts";

describe("embedding", () => {
  it("starts and stops as a library, with a socket of its own, and health is text", async () => {
    const { gateway: embedded, url: base } = await startAnotherGateway();
    const health = await rawRequest(base, "GET /x402/health");
    expect(health).toMatchObject({ status: 200, body: "ok" });
    await embedded.stop();
    await embedded.stop();
    await expect(rawRequest(base, "GET /x402/health")).rejects.toThrow(/ECONNREFUSED/);
  });

  it("rejects its start when the address is taken, and leaves nothing running", async () => {
    const port = Number(new URL((await startAnotherGateway()).url).port);
    const second = await openTestGateway({
      config: { bindAddress: { kind: "tcp", host: "127.0.0.1", port } },
    });
    onTestFinished(() => second.stop());
    await expect(second.gateway.start()).rejects.toThrow(/EADDRINUSE/);
    let lookedAt = 0;
    const { listUndecided } = second.store;
    second.store.listUndecided = (filter) => {
      lookedAt++;
      return listUndecided(filter);
    };
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(lookedAt).toBe(0);
  });

  it("answers 429 to a client that keeps asking without ever paying", async () => {
    const limits = { maxUnpaidPerSecondPerClient: 3, maxVerifiesPerClient: 1, maxVerifies: 1 };
    const other = await startAnotherGateway({ config: { limits } });
    const replies = await Promise.all(Array.from({ length: 6 }, () => other.post({})));
    expect(replies.map(({ status }) => status).sort()).toEqual([402, 402, 402, 429, 429, 429]);
    const limited = replies.find(({ status }) => status === 429);
    expect(limited?.body).toMatchObject({ code: "rate_limited", charged: false, retryable: true });
    expect(limited?.headers.get("retry-after")).toBe("1");
  });

  it("A reload keeps a client's counts", async () => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
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
