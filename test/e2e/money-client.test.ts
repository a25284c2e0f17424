import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { openSocket, readAnswers } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, UNAVAILABLE } from "./expected-answers.ts";
import { expectBalance, ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type Answer, httpMetadata, SET_UPS, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);

describe.each(SET_UPS)("Client, with %s", (setUp) => {
  const gateway = startBeforeAll(() =>
    startPaidGateway({ parts, setUp, maxPending: 3, facilitatorTimeoutSecs: 20, edit: withForwardedHeaders }),
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

  it("Sends a payment again with other headers → the job keeps the headers that it was paid with", async () => {
    const body = `other headers ${setUp}`;
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const first = { "Content-Type": "text/csv", "X-Request-Id": "first", "X-Trace": "for job 1 only" };
    const others = { "Content-Type": "text/html", "X-Request-Id": "second" };
    const sendAgain = () => gateway.send(payment, { body, headers: others });
    const copies: Promise<Answer>[] = [];
    const copied = gateway.duringSettle(async () => void copies.push(sendAgain()));
    const answer = await gateway.send(payment, { body, headers: first });
    expect(answer).toMatchObject(ACCEPTED);
    await copied;
    expect([...(await Promise.all(copies)), await sendAgain()]).toEqual([answer, answer]);
    const [job] = await gateway.waitForJobs(body);
    expect(httpMetadata(job)).toEqual({ "X-HTTP-CONTENT-TYPE": "text/csv", "X-HTTP-X-REQUEST-ID": "first" });
    await expectChanges(ONE_PAID_JOB);
  });

  it("Sends headers to a job with a list of its own, and forges jobgate's → it gets these alone, as X-HTTP-…", async () => {
    const body = `own list ${setUp}`;
    const payment = await gateway.sign({ job: 1 });
    const headers = {
      ...{ "X-Trace": "Zo\xeb", "X-Request-Id": "not for job 1", "X-X402-ORIGIN": "forged" },
      ...{
        "X-CHAIN-CALLER": accounts.stranger.address,
        "X-CHAIN-CALL-ID": "1",
        "X-X402-PAYMENT-TOKEN": "forged",
      },
    };
    expect(await gateway.send(payment, { body, job: 1, headers })).toMatchObject(ACCEPTED);
    const [job] = await gateway.waitForJobs(body);
    const { "X-X402-QUOTE-DIGEST": digest, ...metadata } = job?.metadata ?? {};
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    expect(metadata).toEqual({
      "X-X402-ORIGIN": "x402",
      "X-X402-PAYMENT-NETWORK": `eip155:${parts.anvil.chainId}`,
      "X-X402-PAYMENT-TOKEN": "USDC",
      "X-X402-PAYMENT-SCHEME": "exact",
      "X-X402-PAYMENT-AMOUNT": "3264000",
      "X-X402-PAYER": accounts.payer.address.toLowerCase(),
      "X-CHAIN-SERVICE-ID": "1",
      "X-CHAIN-CALL-ID": String(job?.callId),
      "X-HTTP-CONTENT-TYPE": "text/plain;charset=UTF-8",
      "X-HTTP-X-TRACE": "Zoë",
    });
  });

  it("Sends a forwarded header that is too long → 431 before anything is verified, and the payment still buys", async () => {
    const body = `long header ${setUp}`;
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.send(payment, { body, headers: { "X-Request-Id": "x".repeat(4_097) } });
    expect(answer).toMatchObject({
      status: 431,
      code: "headers_too_large",
      charged: false,
      retryable: false,
    });
    await expectChanges({});
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
    await expectBalance(gateway);
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
    const payment = await gateway.sign();
    const verifies = gateway.facilitatorProxy.count("/verify");
    expect(await gateway.send(payment)).toEqual({
      ...UNAVAILABLE,
      code: "queue_full",
      retryAfter: "5",
    });
    expect(gateway.facilitatorProxy.count("/verify")).toBe(verifies);
    expect(await gateway.journal.paymentOf(payment.signed)).toBeUndefined();
    await expectBalance(gateway);
  });
});

/** Forwards one header to job 1, and another one to every other job. */
function withForwardedHeaders(config: string): string {
  return `${config.replace("[x402]", '[x402]\nforward_headers = ["X-Request-Id"]')}
[[jobs]]
job_index = 1
forward_headers = ["X-Trace"]
`;
}
