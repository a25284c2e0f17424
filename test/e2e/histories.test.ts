import { describe, expect, it } from "vitest";
import { isLinearizable } from "../helpers/linearizable.ts";
import {
  LEASE,
  type LeaseOp,
  type LeaseStatus,
  PAYMENT,
  type PaymentOp,
  queueLosses,
  requireLinearizable,
} from "./histories.ts";

const never = Number.POSITIVE_INFINITY;

describe("The history of a payment", () => {
  const bought = (from: number, to: number, callId: number): PaymentOp => ({
    from,
    to,
    kind: "buy",
    outcome: { callId },
  });
  const refused = (from: number, to: number): PaymentOp => ({ from, to, kind: "buy", outcome: "refused" });
  const failed = (from: number, to: number): PaymentOp => ({ from, to, kind: "buy", outcome: "failed" });
  const unanswered = (from: number): PaymentOp => ({ from, to: never, kind: "buy" });
  const delivered = (at: number, callId: number): PaymentOp => ({
    from: at,
    to: at,
    kind: "delivered",
    callId,
  });
  const check = (...history: PaymentOp[]) => isLinearizable(history, PAYMENT);

  it("Has an order when it buys one job, whoever is answered first", () => {
    expect(check(bought(0, 1, 7), bought(2, 3, 7), delivered(4, 7))).toBe(true);
    expect(check(refused(0, 1), bought(2, 9, 7), delivered(3, 7), refused(2, 3))).toBe(true);
    expect(check(unanswered(0), refused(1, 2), delivered(3, 7), bought(4, 5, 7))).toBe(true);
    expect(check(unanswered(0), refused(1, 2))).toBe(true);
  });

  it("Has none when it buys two jobs", () => {
    expect(check(bought(0, 9, 7), bought(0, 9, 8))).toBe(false);
    expect(check(unanswered(0), unanswered(0), delivered(1, 7), delivered(2, 8))).toBe(false);
    expect(check(bought(0, 1, 7), delivered(2, 8))).toBe(false);
  });

  it("Has none when it is refused once it has bought a job", () => {
    expect(check(bought(0, 1, 7), refused(2, 3))).toBe(false);
    expect(check(unanswered(0), delivered(1, 7), refused(2, 3))).toBe(false);
  });

  it("Has none when it buys a job after it has failed, or fails after it has bought one", () => {
    expect(check(unanswered(0), failed(1, 2), failed(3, 4), refused(5, 6))).toBe(true);
    expect(check(failed(0, 1), bought(2, 3, 7))).toBe(false);
    expect(check(unanswered(0), failed(1, 2), delivered(3, 7))).toBe(false);
    expect(check(bought(0, 1, 7), failed(2, 3))).toBe(false);
  });

  it("Has none when a job runs that no client requested, or that was only refused", () => {
    expect(check(delivered(0, 7))).toBe(false);
    expect(check(refused(0, 1), delivered(2, 7))).toBe(false);
    expect(check(delivered(0, 7), unanswered(1))).toBe(false);
  });
});

describe("The history of a JobCall", () => {
  const claim = (to: number, attempt: number): LeaseOp => ({
    from: 0,
    to,
    kind: "claim",
    token: `t${attempt}`,
    attempt,
  });
  const act =
    (kind: "ack" | "nack" | "extend") =>
    (from: number, attempt: number, status?: LeaseStatus): LeaseOp => ({
      from,
      kind,
      token: `t${attempt}`,
      ...(status ? { to: from + 1, status } : { to: never }),
    });
  const [ack, nack, extend] = [act("ack"), act("nack"), act("extend")];
  const check = (...history: LeaseOp[]) => isLinearizable(history, LEASE);

  it("Has an order when its holder works, and a lost lease is refused", () => {
    expect(check(claim(1, 1), extend(2, 1, "done"), ack(4, 1, "done"), ack(6, 1, "not found"))).toBe(true);
    expect(check(claim(1, 1), claim(3, 2), ack(4, 1, "lost"), ack(6, 2, "done"))).toBe(true);
    expect(check(claim(1, 1), nack(2, 1, "done"), ack(4, 1, "lost"), claim(6, 2))).toBe(true);
    expect(check(claim(1, 1), extend(2, 1, "lost"), claim(5, 3), ack(6, 3, "done"))).toBe(true);
  });

  it("Has an order when an ack without an answer took effect, or did not", () => {
    expect(check(claim(1, 1), ack(2, 1), ack(4, 1, "not found"))).toBe(true);
    expect(check(claim(1, 1), ack(2, 1), claim(5, 2), ack(6, 2, "done"))).toBe(true);
  });

  it("Has none when two acks take effect", () => {
    expect(check(claim(1, 1), ack(2, 1, "done"), ack(4, 1, "done"))).toBe(false);
    expect(check(claim(1, 1), claim(3, 2), ack(4, 1, "done"), ack(4, 2, "done"))).toBe(false);
  });

  it("Has none when an old lease is accepted, or is valid again after it was lost", () => {
    expect(
      check(claim(1, 1), extend(2, 1, "done"), claim(5, 2), extend(6, 2, "done"), ack(8, 1, "done")),
    ).toBe(false);
    expect(check(claim(1, 1), claim(3, 2), extend(4, 2, "done"), extend(6, 1, "done"))).toBe(false);
    expect(check(claim(1, 1), ack(2, 1, "lost"), ack(4, 1, "done"))).toBe(false);
    expect(check(claim(1, 1), nack(2, 1, "done"), ack(4, 1, "done"))).toBe(false);
  });

  it("Has none when a done JobCall is delivered, or an unfinished JobCall is not found", () => {
    expect(check(claim(1, 1), ack(2, 1, "done"), { ...claim(9, 2), from: 4 })).toBe(false);
    expect(check(claim(1, 1), ack(2, 1, "not found"))).toBe(false);
    expect(check(claim(1, 1), ack(2, 1, "done"), extend(4, 1, "lost"))).toBe(false);
  });

  it("Has none when two runners have one lease", () => {
    expect(check(claim(1, 1), claim(2, 1))).toBe(false);
  });

  it("Is decided when it was claimed many times, and the start of each claim is unknown", () => {
    const attempts = Array.from({ length: 80 }, (_, i) => i + 1);
    const history = attempts.flatMap((n) => [claim(2 * n - 1, n), ack(2 * n, n, "lost")]);
    expect(check(...history, ack(400, 80, "lost"))).toBe(true);
    expect(check(...history, ack(400, 80, "done"))).toBe(false);
  });

  it("Is printed as text when it has no order", () => {
    const histories = new Map([["call 7", [claim(1, 1), ack(2, 1, "not found")]]]);
    expect(() => requireLinearizable(histories, LEASE)).toThrow(
      '1 of 1 histories have no order:\ncall 7:\n  0.0 to 1.0: {"kind":"claim","token":"t1","attempt":1}\n  2.0 to 3.0: ',
    );
    expect(() => requireLinearizable(new Map([["call 7", [claim(1, 1)]]]), LEASE)).not.toThrow();
  });
});

describe("A queue", () => {
  const acknowledged = new Map([
    [1, "a"],
    [2, "b"],
  ]);
  const losses = (...delivered: [number, string][]) =>
    queueLosses({
      acknowledged,
      unknown: new Set(["c"]),
      delivered: delivered.map(([callId, body]) => ({ callId, body })),
    });

  it("Loses nothing when all is delivered, repeatedly or not", () => {
    const nothing = { lost: [], unexpected: [], duplicates: 0, recovered: 0 };
    expect(losses([1, "a"], [2, "b"])).toEqual(nothing);
    expect(losses([2, "b"], [1, "a"], [2, "b"], [3, "c"])).toEqual({
      ...nothing,
      duplicates: 1,
      recovered: 1,
    });
  });

  it("Names what is lost, and what no client requested", () => {
    expect(losses([1, "a"])).toMatchObject({ lost: [[2, "b"]], unexpected: [] });
    expect(losses([1, "b"], [2, "b"]).unexpected).toHaveLength(2);
    expect(losses([1, "a"], [2, "b"], [9, "d"])).toMatchObject({ lost: [], unexpected: [{ callId: 9 }] });
    expect(losses([1, "a"], [2, "b"], [3, "c"], [4, "c"])).toMatchObject({ unexpected: [{ callId: 4 }] });
    expect(losses([1, "a"], [2, "b"], [3, "a"])).toMatchObject({ unexpected: [{ callId: 3 }] });
  });
});
