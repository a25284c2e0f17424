import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/core/errors.ts";
import { ClientLimits } from "../../../src/x402/purchase/client-limits.ts";

const CONFIG = {
  limits: { maxUnpaidPerSecondPerClient: 3, maxVerifiesPerClient: 2, maxVerifies: 3 },
  trustedProxies: [],
};

/** The address of a request that came without a proxy. */
const from = (remoteAddress: string) => ({ remoteAddress, headerValues: () => [] });

function expectRateLimited(error: unknown): void {
  expect(error).toBeInstanceOf(GatewayError);
  const { code, status, retryable, headers } = error as GatewayError;
  expect({ code, status, retryable }).toEqual({ code: "rate_limited", status: 429, retryable: true });
  expect(Number(headers["retry-after"])).toBeGreaterThanOrEqual(1);
}

/** Returns a verification that lasts until `end` is called. */
function openVerification() {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { verify: () => ended, end };
}

describe("Limits on clients that do not pay", () => {
  it("Limits each client's unpaid requests in a second", () => {
    const limits = new ClientLimits(CONFIG);
    for (let request = 0; request < 3; request++) limits.countUnpaid(from("192.0.2.1"));
    try {
      limits.countUnpaid(from("192.0.2.1"));
      expect.unreachable("the fourth request in a second was let through");
    } catch (error) {
      expectRateLimited(error);
    }
    limits.countUnpaid(from("192.0.2.2"));
  });

  it("Limits one client's concurrent verifications, and frees room when one ends", async () => {
    const limits = new ClientLimits(CONFIG);
    const [first, second] = [openVerification(), openVerification()];
    const running = [first, second].map(({ verify }) => limits.whileVerifying(from("192.0.2.1"), verify));
    await limits
      .whileVerifying(from("192.0.2.1"), async () => "third")
      .then(() => expect.unreachable("a third verification was let through"), expectRateLimited);
    first.end();
    await running[0];
    expect(await limits.whileVerifying(from("192.0.2.1"), async () => "again")).toBe("again");
    second.end();
    await running[1];
  });

  it("Limits all clients' concurrent verifications, and frees room when one fails", async () => {
    const limits = new ClientLimits(CONFIG);
    const open = [openVerification(), openVerification(), openVerification()];
    const running = open.map(({ verify }, client) =>
      limits.whileVerifying(from(`192.0.2.${client}`), verify),
    );
    await limits
      .whileVerifying(from("192.0.2.9"), async () => "fourth")
      .then(() => expect.unreachable("a fourth verification was let through"), expectRateLimited);
    for (const { end } of open) end();
    await Promise.all(running);
    for (let round = 0; round < 5; round++) {
      const failing = limits.whileVerifying(from("192.0.2.9"), async () =>
        Promise.reject(new Error("refused")),
      );
      await expect(failing).rejects.toThrow("refused");
    }
  });
});
