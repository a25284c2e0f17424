import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { GatewayError } from "../../../src/core/errors.ts";
import { NO_TELEMETRY, type Telemetry } from "../../../src/core/telemetry.ts";
import type { RefusedPayment } from "../../../src/store/contract/refused-payments.ts";
import { RefusedPayments } from "../../../src/x402/purchase/refused-payments.ts";
import { accounts } from "../../helpers/accounts.ts";
import { startLog } from "../../helpers/log.ts";
import { AMOUNT, read, requestWith, signedPayload, USDC } from "../payments.ts";

const JOB = { serviceId: 1n, jobIndex: 0 };
const PAYMENT = read(await signedPayload());
const PAYER = accounts.payer.address.toLowerCase();
const PROTOCOL = { carriesPayment: () => true, readPayment: () => PAYMENT };
const REQUEST = requestWith([]);
const refusal = (message = "No.", cause?: unknown) => new GatewayError("payment_invalid", message, { cause });

/** A log of refusals in memory, and what collects refusals for it. */
function start() {
  const writes: (readonly RefusedPayment[])[] = [];
  const { logger, lines } = startLog();
  let isDown = false;
  const log = {
    async saveRefusedPayments(refused: readonly RefusedPayment[]) {
      if (isDown) throw new GatewayError("store_unavailable", "down");
      writes.push(refused);
    },
  };
  const count = vi.fn<Telemetry["count"]>();
  const telemetry: Telemetry = { ...NO_TELEMETRY, count };
  const refused = new RefusedPayments({ log, telemetry, clock: () => 7, logger });
  onTestFinished(() => refused.stop());
  const setDown = (down: boolean) => {
    isDown = down;
  };
  return { refused, writes, lines, count, setDown };
}

afterEach(() => vi.useRealTimers());

describe("refused payments", () => {
  it("Are written in the background, 500 at once, and not each by itself", async () => {
    vi.useFakeTimers();
    const { refused, writes } = start();
    await refused.start();
    for (let number = 0; number < 1_200; number++)
      refused.note(refusal(`${number}`), { request: REQUEST, job: JOB, protocol: PROTOCOL });
    expect(writes).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(writes.map((write) => write.length)).toEqual([500, 500, 200]);
    expect(writes.flat().map(({ message }) => message)).toEqual([...Array(1_200).keys()].map(String));
    await vi.advanceTimersByTimeAsync(30_000);
    expect(writes).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(31_000);
    expect(writes.slice(3)).toEqual([[]]);
  });

  it("Have payer, reason and request; the log has them too", async () => {
    const { refused, lines, writes } = start();
    const cause = new Error("cut", {
      cause: new Error("at https://user:key@rpc.example:8545/v2/key?k=key!"),
    });
    refused.note(refusal("No.", cause), { request: REQUEST, job: JOB, protocol: PROTOCOL });
    const line = { request: "r1", job: "1/0", code: "payment_invalid", payer: PAYER };
    const reason = "cut: at https://rpc.example:8545";
    expect(lines).toMatchObject([{ msg: "paid request refused", ...line, reason }]);
    return refused.stop().then(() =>
      expect(writes).toMatchObject([
        [
          {
            at: 7,
            requestId: "r1",
            ...JOB,
            code: "payment_invalid",
            reason,
            payment: { payer: PAYER, network: USDC.network, amount: AMOUNT },
          },
        ],
      ]),
    );
  });

  it("Wait while the store is down, 10,000 at most, and the others are counted", async () => {
    vi.useFakeTimers();
    const { refused, writes, lines, count, setDown } = start();
    setDown(true);
    await refused.start();
    for (let number = 0; number < 10_003; number++)
      refused.note(refusal(`${number}`), { request: REQUEST, job: JOB, protocol: PROTOCOL });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(lines.filter(({ level }) => level === 40)).toHaveLength(1);
    expect(count.mock.calls).toEqual(Array(3).fill(["jobgate_refused_payments_lost_total", {}]));
    setDown(false);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(writes.flat()).toHaveLength(10_000);
    expect(writes.flat().at(-1)?.message).toBe("9999");
  });

  it("Come only from requests with a payment, readable or not", async () => {
    const { refused, writes } = start();
    const unpaid = { ...PROTOCOL, carriesPayment: () => false };
    refused.note(refusal("unpaid"), { request: REQUEST, job: JOB, protocol: unpaid });
    const unreadable = {
      ...PROTOCOL,
      readPayment(): never {
        throw new TypeError("a bug");
      },
    };
    refused.note(refusal("unreadable"), { request: REQUEST, job: JOB, protocol: unreadable });
    await refused.stop();
    expect(writes.flat().map(({ message, payment }) => [message, payment])).toEqual([
      ["unreadable", undefined],
    ]);
  });
});
