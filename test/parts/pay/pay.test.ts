import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { beforeEach, describe, expect, test } from "vitest";
import { Fail, type Handler } from "../../../src/runner/job.ts";
import { run } from "../../../src/runner/run.ts";
import { runHereWith } from "../../commands/operator-commands.ts";
import { startMeteredParts } from "../../e2e/metered.ts";
import { accounts } from "../../helpers/accounts.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

/** Three jobs for a cent: capitals, one that fails, and one that never ends. */
const config = (facilitatorUrl: string, network: string, more: string) => `
service_id = 1
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "127.0.0.1:0"
drain_secs = 0
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "https://jobs.example.com"
facilitator_url = "${facilitatorUrl}"
[[x402.accepted_tokens]]
token = "USDC"
network = "${network}"
pay_to = "0x${"1".repeat(40)}"
${[0, 1, 2]
  .map(
    (index) => `[[jobs]]
job_index = ${index}
name = "job-${index}"
description = "Does job ${index}."
mode = "public_paid"
price = "$0.01"`,
  )
  .join("\n")}
${more}`;
const metered = (rpcUrl: string) => `
[[x402.accepted_tokens]]
token = "USDC"
network = "base-sepolia"
pay_to = "${accounts.payTo.address}"
transfer_method = "permit2"
rpc_url = "${rpcUrl}"
[[jobs]]
job_index = 3
mode = "public_paid"
price = "$0.02"
charge = "used"
[[jobs]]
job_index = 4
mode = "public_paid"
price = "$0.02"
charge = ["used", "before"]
`;
/** @param end resolves at the end of the tests */
const handlerUntil =
  (end: Promise<unknown>): Handler =>
  (job) => {
    const { jobId, body } = job;
    if (jobId === 4n) job.charge(700n);
    if (jobId === 0n || jobId >= 3n) return body.toString().toUpperCase();
    if (jobId === 1n) throw new Fail("no such colour");
    return end.then(() => undefined);
  };

/** Facilitator without a chain, for which every payment is good. */
const facilitator = startBeforeAll(async () => {
  const settled: unknown[] = [];
  const answers = { isValid: true };
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === "/supported") {
      const upto = { scheme: "upto", extra: { facilitatorAddress: accounts.facilitator.address } };
      const kinds = [{ scheme: "exact" }, upto].map((kind) => ({
        x402Version: 2,
        network: "eip155:*",
        ...kind,
      }));
      response.end(JSON.stringify({ kinds, extensions: [], signers: {} }));
      return;
    }
    const { paymentPayload, paymentRequirements } = (await json(request)) as {
      readonly paymentPayload: unknown;
      readonly paymentRequirements: { readonly network: string };
    };
    if (request.url === "/settle") settled.push(paymentPayload);
    const { network } = paymentRequirements;
    const outcome = { ...answers, success: true, transaction: `0x${"ab".repeat(32)}`, network };
    response.end(JSON.stringify({ ...outcome, payer: accounts.payer.address }));
  }
  const listener = await listenHttp({
    handler: (request, response) => {
      answer(request, response).catch(() => response.destroy());
    },
  });
  return { url: listener.url, settled, answers, stop: listener.stop };
});

function startSeller(network: string, shop = () => ({ facilitatorUrl: facilitator.url, more: "" })) {
  return startBeforeAll(async () => {
    const { facilitatorUrl, more } = shop();
    const jobgate = await startEmbeddedJobgate({ config: config(facilitatorUrl, network, more) });
    const proxy = await startFaultProxy({ target: jobgate.x402Url });
    const leaving = new AbortController();
    const working = run(handlerUntil(once(leaving.signal, "abort")), {
      address: jobgate.runnerAddress,
      signal: leaving.signal,
      logger: { info: () => undefined, warn: () => undefined },
    });
    return {
      proxy,
      jobUrl: (job: number) => `${proxy.url}/x402/jobs/1/${job}`,
      async stop() {
        leaving.abort();
        await working;
        await Promise.all([jobgate.stop(), proxy.stop()]);
      },
    };
  });
}
const testSeller = startSeller("base-sepolia");
const realSeller = startSeller("base");
const parts = startBeforeAll(startMeteredParts);
const meteredSeller = startSeller("base-sepolia", () => ({
  facilitatorUrl: parts.facilitator.url,
  more: metered(parts.anvil.rpcUrl),
}));

beforeEach(() => {
  facilitator.settled.length = 0;
  facilitator.answers.isValid = true;
  testSeller.proxy.clear();
  testSeller.proxy.forget();
});

const env = { JOBGATE_PAYER_KEY: accounts.payer.privateKey };
const files = { "text.txt": "hello", key: accounts.payer.privateKey.slice(2) };
const pay = (url: string, ...args: string[]) =>
  runHereWith(["pay", url, "--body", "text.txt", ...args], { files, env });

/** Payments that reached the seller. */
const payments = () => testSeller.proxy.requests.flatMap(({ headers }) => headers["payment-signature"] ?? []);

describe("jobgate pay", () => {
  test("Prints the offer and the receipt to stderr, and only the result to stdout", async () => {
    const { code, stdout, stderr } = await pay(testSeller.jobUrl(0));
    expect({ code, stdout }, stderr).toEqual({ code: 0, stdout: "HELLO" });
    expect(stderr).toMatch(/^price +0\.01 USDC$/m);
    expect(stderr).toMatch(/^network +base-sepolia$/m);
    expect(stderr).toMatch(new RegExp(`^receipt +${testSeller.proxy.url}/x402/calls/\\d+$`, "m"));
    expect(facilitator.settled).toHaveLength(1);
  });

  test("Prints one line of JSON with --json", async () => {
    const { code, stdout } = await pay(testSeller.jobUrl(0), "--json", "--key-file", "key");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      status: "succeeded",
      receipt_url: expect.stringContaining("/x402/calls/"),
      payer: accounts.payer.address,
      amount: "10000",
      amount_text: "0.01 USDC",
      result: "HELLO",
    });
  });

  test("Sends the same payment again when the answer is lost", async () => {
    const when = ({ headers }: { headers: object }) => "payment-signature" in headers;
    testSeller.proxy.add({ when, times: 1, fault: { kind: "lose-answer" } });
    expect(await pay(testSeller.jobUrl(0))).toMatchObject({ code: 0, stdout: "HELLO" });
    expect(payments()).toHaveLength(2);
    expect(new Set(payments()).size).toBe(1);
    expect(facilitator.settled).toHaveLength(1);
  });

  test("Asks for the offer again when its answer is lost, or the seller is stopping", async () => {
    testSeller.proxy.add({ times: 1, fault: { kind: "lose-answer" } });
    const stopping = {
      error: "jobgate is stopping.",
      code: "shutting_down",
      charged: false,
      retryable: true,
    };
    testSeller.proxy.add({ times: 1, fault: { kind: "answer", status: 503, body: stopping } });
    expect(await pay(testSeller.jobUrl(0))).toMatchObject({ code: 0, stdout: "HELLO" });
    expect(payments()).toHaveLength(1);

    testSeller.proxy.forget();
    testSeller.proxy.add({ fault: { kind: "cut" } });
    expect(await pay(testSeller.jobUrl(0))).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^No seller answers at /m),
    });
    expect(testSeller.proxy.requests).toHaveLength(3);
  });

  test("An interrupted purchase that is named by --payment-id is not charged again", async () => {
    const args = ["--payment-id", `order_${"5".repeat(20)}`, "--json"];
    const receipts = [
      await pay(testSeller.jobUrl(2), ...args, "--no-wait"),
      await pay(testSeller.jobUrl(2), ...args, "--no-wait"),
    ].map(({ stdout }) => (JSON.parse(stdout) as { receipt_url: string }).receipt_url);
    expect(new Set(receipts).size).toBe(1);
    expect(facilitator.settled).toHaveLength(1);
  });

  test("Says that a job has no result yet when the time is up", async () => {
    const asked = ["--header", "Prefer: wait=0", "--timeout", "2"];
    expect(await pay(testSeller.jobUrl(2), ...asked)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("in time: the job has no result yet"),
    });
  });

  test("Pays nothing above --max, nor on another network than --network", async () => {
    expect(await pay(testSeller.jobUrl(0), "--max", "0.009")).toMatchObject({
      code: 1,
      stdout: "",
      stderr: "The job costs 0.01 USDC, which is more than --max 0.009\n",
    });
    expect(await pay(testSeller.jobUrl(0), "--network", "polygon")).toMatchObject({
      code: 1,
      stderr: "The job is not offered on polygon; expected one of base-sepolia\n",
    });
    expect(payments()).toEqual([]);
    expect(await pay(testSeller.jobUrl(0), "--max", "$0.01")).toMatchObject({ code: 0 });
  });

  test("Pays real money only up to --max, where no person can be asked", async () => {
    const refused = await pay(realSeller.jobUrl(0));
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Nothing was paid: --max is missing/),
    });
    expect(facilitator.settled).toEqual([]);
    expect(await pay(realSeller.jobUrl(0), "--max", "1")).toMatchObject({ code: 0, stdout: "HELLO" });
  });

  test("Pays a metered job, with its price as the ceiling", async () => {
    const url = meteredSeller.jobUrl(3);
    await expect.poll(async () => (await fetch(url, { method: "POST" })).status, { interval: 20 }).toBe(402);
    const settles = parts.facilitator.counts.settle;
    const { code, stdout, stderr } = await pay(url, "--max", "0.02");
    expect({ code, stdout }, stderr).toEqual({ code: 0, stdout: "HELLO" });
    expect(stderr).toMatch(/^price +up to 0\.02 USDC$/m);
    expect(parts.facilitator.counts.settle).toBe(settles + 1);
    expect(await pay(url, "--max", "0.01")).toMatchObject({
      code: 1,
      stderr: "The job costs up to 0.02 USDC, which is more than --max 0.01\n",
    });
  });

  test("Pays a job that is sold both ways at its price, or with --charge used for what it used, and says what that was", async () => {
    const url = meteredSeller.jobUrl(4);
    const schemes = async () => {
      const header = (await fetch(url, { method: "POST" })).headers.get("payment-required");
      return header === null ? [] : decodePaymentRequiredHeader(header).accepts.map(({ scheme }) => scheme);
    };
    await expect.poll(schemes, { interval: 20 }).toContain("upto");
    expect((await pay(url)).stderr).toMatch(/^price +0\.02 USDC$/m);
    const used = await pay(url, "--charge", "used", "--json");
    expect(used.stderr).toMatch(/^price +up to 0\.02 USDC$/m);
    expect(used.stderr).toMatch(/^charged +0\.0007 USDC$/m);
    expect(JSON.parse(used.stdout)).toMatchObject({
      status: "succeeded",
      amount: "20000",
      transaction: expect.stringMatching(/^0x/),
      charge: { state: "settled", amount: "700", amount_text: "0.0007 USDC" },
      result: "HELLO",
    });
    expect(await pay(testSeller.jobUrl(0), "--charge", "used")).toMatchObject({
      code: 1,
      stderr: "The job is not offered with --charge used; expected fixed\n",
    });
  });

  test("Prints a job that failed as JSON with --json, and ends with 1", async () => {
    const { code, stdout } = await pay(testSeller.jobUrl(1), "--json");
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      status: "failed",
      code: "call_failed",
      reason: "no such colour",
      receipt_url: expect.stringContaining("/x402/calls/"),
      amount_text: "0.01 USDC",
    });
  });

  test("Says why a job failed, and ends with 1", async () => {
    const { code, stdout, stderr } = await pay(testSeller.jobUrl(1));
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^410: call_failed: The job failed, and has no result: no such colour$/m);
    expect(stderr).toMatch(/^receipt /m);
    expect(stderr).not.toContain("try it again");
  });

  test("Prints the request ID of a refused payment, by which its seller finds the reason", async () => {
    facilitator.answers.isValid = false;
    const { code, stderr } = await pay(testSeller.jobUrl(0));
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^402: payment_invalid: .*\nThe seller finds the reason by the request ID: \S+-\d+$/m,
    );
  });

  test("Says how to name a job at a URL that is not a job, and lists what the seller sells", async () => {
    const { url } = testSeller.proxy;
    const { code, stdout, stderr } = await pay(url);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr.split("\n")).toEqual([
      expect.stringMatching(/^405: /),
      `${url} is not a job; expected the URL of a job, such as ${url}/x402/jobs/SERVICE/JOB. ${url} sells:`,
      ...[0, 1, 2].map((job) => `  https://jobs.example.com/x402/jobs/1/${job}  job-${job}`),
      "",
    ]);
    testSeller.proxy.add({ when: ({ path }) => path === "/x402/jobs", fault: { kind: "cut" } });
    expect((await pay(`${url}/x402/jobs/1/9`)).stderr).toMatch(
      /^404: job_not_found: .*\n\S+ is not a job; expected the URL of a job, such as \S+\/x402\/jobs\/SERVICE\/JOB\n$/,
    );
  });

  test("Names a price once that several offers have", async () => {
    const url = meteredSeller.jobUrl(0);
    await expect.poll(async () => (await fetch(url, { method: "POST" })).status, { interval: 20 }).toBe(402);
    const header = (await fetch(url, { method: "POST" })).headers.get("payment-required") ?? "";
    expect(decodePaymentRequiredHeader(header).accepts.length).toBeGreaterThan(1);
    expect((await pay(url, "--max", "0.001")).stderr).toBe(
      "The job costs 0.01 USDC, which is more than --max 0.001\n",
    );
  });

  test("Gives up at --timeout, and says how to go on without a second charge", async () => {
    const { code, stderr } = await pay(testSeller.jobUrl(2), "--timeout", "1", "-H", "prefer: wait=0");
    expect(code).toBe(1);
    expect(stderr).toMatch(/try it again with --payment-id pay_[0-9a-f-]{36}$/m);
  });

  test("Refuses what cannot be bought, and never prints a key", async () => {
    expect(await pay("ftp://jobs.example.com")).toMatchObject({ code: 2 });
    expect(await pay("http://127.0.0.1:1/")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^No seller answers at http:\/\/127\.0\.0\.1:1\/: /m),
    });
    expect(await pay(`${testSeller.proxy.url}/x402/jobs/1/9`)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^404: job_not_found: /),
    });
    expect(payments()).toEqual([]);
    const wrong = await runHereWith(["pay", testSeller.jobUrl(0)], {
      env: { JOBGATE_PAYER_KEY: `${env.JOBGATE_PAYER_KEY}00` },
    });
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining("does not hold a private key") });
    expect(wrong.stderr).not.toContain(env.JOBGATE_PAYER_KEY.slice(2, 20));
  });
});
