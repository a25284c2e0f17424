import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { openSocket, readAnswers } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, UNAVAILABLE } from "./expected-answers.ts";
import { expectBalance, ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { SET_UPS, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);

describe.each(SET_UPS)("Client, with %s", (setUp) => {
  const gateway = startBeforeAll(() =>
    startPaidGateway({ parts, setUp, maxPending: 3, facilitatorTimeoutSecs: 5 }),
  );

  it("Hangs up mid-settle → paid, one job, and the resend gets its answer", async () => {
    const body = `hangs up ${setUp}`;
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const hangUp = new AbortController();
    const hungUp = gateway.duringSettle(async () => hangUp.abort());
    await expect(gateway.send(payment, { body, signal: hangUp.signal })).rejects.toThrow();
    await hungUp;
    expect(await gateway.send(payment, { body })).toMatchObject(ACCEPTED);
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Hangs up mid-body → nothing is verified, stored or charged, and the same payment still buys", async () => {
    const body = `mid-body ${setUp}`;
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const { hostname, port, pathname } = new URL(gateway.urlOf());
    const socket = connect(Number(port), hostname);
    const header = payment.headers["payment-signature"] as string;
    const head = `POST ${pathname} HTTP/1.1\r\nHost: jobs\r\nContent-Length: 100\r\nPAYMENT-SIGNATURE: ${header}\r\n\r\n`;
    await new Promise<void>((resolve) => socket.write(`${head}half of it`, () => resolve()));
    socket.destroy();
    expect(await gateway.send(payment, { body })).toMatchObject(ACCEPTED);
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Closes its side after the whole request → the 202 arrives, and the job runs", async () => {
    const body = `half-closed ${setUp}`;
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const url = gateway.urlOf();
    const socket = await openSocket(url);
    const header = payment.headers["payment-signature"] as string;
    const head = `POST ${new URL(url).pathname} HTTP/1.1\r\nHost: jobs\r\nContent-Length: ${body.length}`;
    socket.end(`${head}\r\nPAYMENT-SIGNATURE: ${header}\r\n\r\n${body}`);
    const [answer, ...more] = await readAnswers(socket);
    expect([answer?.status, more]).toEqual([202, []]);
    expect(JSON.parse(answer?.body ?? "")).toMatchObject({ status: "accepted" });
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Sends a body one byte over the limit → 413, no charge", async () => {
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.send(payment, { body: "x".repeat(1_048_577) });
    expect(answer).toMatchObject({ status: 413, code: "body_too_large", charged: false, retryable: false });
    await expectChanges({});
  });

  it("Pays while jobgate stops → the settlement finishes and is answered, and its job runs after the restart", async () => {
    const body = `stopping ${setUp}`;
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const { exited } = gateway.jobgate;
    const stopping = gateway.duringSettle(async () => gateway.jobgate.kill("SIGTERM"));
    const answer = gateway.send(payment, { body });
    await stopping;
    expect(await answer).toMatchObject(ACCEPTED);
    expect(await exited).toEqual({ code: 0, signal: null });
    expectBalance(gateway);
    await gateway.startAgain();
    expect(await gateway.send(payment, { body })).toEqual(await answer);
    const [job] = await gateway.waitForJobs(body);
    expect(Number(job?.callId)).toBe((await answer).call_id);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Has too little of the token → 402 payment_invalid, nothing written", async () => {
    const payment = await gateway.sign({ account: accounts.stranger });
    const expectChanges = await watchLedger(parts, gateway);
    expect(await gateway.send(payment)).toMatchObject({
      status: 402,
      code: "payment_invalid",
      charged: false,
    });
    await expectChanges({ verifyCalls: 1 });
  });

  // Last, because undecided payments keep their places in the queue.
  it("Pays while the queue is full → 503 queue_full before anything is verified or charged", async () => {
    const undecided = await Promise.all([1, 2, 3].map(() => gateway.sign()));
    gateway.facilitatorProxy.add({ path: "/settle", fault: { kind: "cut" } });
    for (const payment of undecided) expect((await gateway.send(payment)).code).toBe("settlement_unknown");
    gateway.facilitatorProxy.clear();
    gateway.facilitatorProxy.add({ path: "/settle", fault: { kind: "delay-request", ms: 3_000 } });
    const payment = await gateway.sign();
    const verifies = gateway.facilitatorProxy.count("/verify");
    expect(await gateway.send(payment)).toEqual({
      ...UNAVAILABLE,
      code: "queue_full",
      retryAfter: "5",
    });
    expect(gateway.facilitatorProxy.count("/verify")).toBe(verifies);
    expect(gateway.journal.paymentOf(payment.signed)).toBeUndefined();
    expectBalance(gateway);
  });
});
