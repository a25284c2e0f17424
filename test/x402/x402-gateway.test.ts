import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from "@x402/core/http";
import { parsePaymentRequired } from "@x402/core/schemas";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { X402Config } from "../../src/config/config.ts";
import { openStore } from "../../src/open-store.ts";
import type { JobResult, Store } from "../../src/store/store.ts";
import type { CounterName } from "../../src/x402/stats.ts";
import { X402Gateway } from "../../src/x402/x402-gateway.ts";
import { type PaidParts, startPaidParts } from "../e2e/paid-parts.ts";
import { accounts } from "../helpers/accounts.ts";
import { claimHeaders, signClaim } from "../helpers/caller-claim.ts";
import { requestOffer, signV1Payment, signV2Payment } from "../helpers/clients.ts";
import { type FaultProxy, startFaultProxy } from "../helpers/http-proxy.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { PRICE_WEI, USDC } from "./payments.ts";

const logger = pino({ level: "silent" });
const MAX_BODY = 1_000;
/** Where the contract that is asked for permissions is. */
const PERMISSIONS = accounts.stranger.address;
/** EVM code that returns the word 1 to whatever it is asked. */
const ALWAYS_TRUE = "0x600160005260206000f3";
const PUBLIC_URL = "https://operator.example.com";

let parts: PaidParts;
let facilitator: FaultProxy;
let chain: FaultProxy;
let folder: string;
let store: Store;
let gateway: X402Gateway;
let url: string;

beforeAll(async () => {
  parts = await startPaidParts();
  facilitator = await startFaultProxy({ target: parts.facilitator.url });
  chain = await startFaultProxy({ target: parts.anvil.rpcUrl });
  folder = await mkdtemp(join(tmpdir(), "jobgate-x402-"));
  store = await openStore({ url: `sqlite:${join(folder, "jobgate.db")}`, maxPending: 1_000 }, logger);
  gateway = new X402Gateway({ config: config(), store, logger });
  await gateway.start();
  url = `http://${gateway.address}`;
});
afterAll(async () => {
  await gateway?.stop();
  await store?.close();
  await Promise.all([facilitator?.stop(), chain?.stop()]);
  await parts?.stop();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => {
  facilitator.clear();
  chain.clear();
});

/** Job 0 is for everyone, job 1 for permitted callers, job 2 is priced but disabled, job 9 has no price. */
function config(changes: Partial<X402Config> = {}): X402Config {
  const restriction = {
    authMode: "delegated_caller_signature",
    chainRpcUrl: chain.url,
    chainContract: PERMISSIONS,
    permissionCacheSecs: 0,
  } as const;
  return {
    bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
    publicUrl: PUBLIC_URL,
    facilitatorUrl: facilitator.url,
    facilitatorTimeoutMs: 2_000,
    quoteTtlSecs: 300,
    maxBodyBytes: MAX_BODY,
    defaultInvocationMode: "public_paid",
    acceptedTokens: [USDC],
    jobPolicies: [
      { serviceId: 1n, jobIndex: 1, invocationMode: "restricted_paid", restriction },
      { serviceId: 1n, jobIndex: 2, invocationMode: "disabled" },
    ],
    priceSource: "map",
    jobPricing: new Map([0, 1, 2].map((job) => [`1/${job}`, PRICE_WEI])),
    limits: { maxUnpaidPerSecondPerClient: 1_000, maxVerifiesPerClient: 100, maxVerifies: 100 },
    ...changes,
  };
}

const jobUrl = (job = 0, base = url) => `${base}/x402/jobs/1/${job}`;

async function sign(job = 0, base = url) {
  const { v2 } = await requestOffer(jobUrl(job, base));
  return signV2Payment({ offer: v2, account: accounts.payer });
}

interface Reply {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

async function post(
  headers: Readonly<Record<string, string>>,
  options: { job?: number; body?: string; base?: string } = {},
): Promise<Reply> {
  const { job = 0, body = "work", base = url } = options;
  const response = await fetch(jobUrl(job, base), { method: "POST", headers, body });
  return {
    status: response.status,
    body: (await response.json()) as Reply["body"],
    headers: response.headers,
  };
}

async function counters(base = url): Promise<Record<CounterName, number>> {
  const { status, counters: counts } = (await (await fetch(`${base}/x402/stats`)).json()) as {
    status: string;
    counters: Record<CounterName, number>;
  };
  expect(status).toBe("ok");
  return counts;
}

/** Which counters a deed moves, and by how much. */
async function moved(
  deed: () => Promise<unknown>,
  base = url,
): Promise<Partial<Record<CounterName, number>>> {
  const before = await counters(base);
  await deed();
  const after = await counters(base);
  return Object.fromEntries(
    Object.entries(after)
      .map(([name, count]) => [name, count - before[name as CounterName]] as const)
      .filter(([, count]) => count !== 0),
  );
}

/** A gateway beside the others, with a store of its own. */
async function another(options: { config?: Partial<X402Config>; maxPending?: number } = {}) {
  const own = await mkdtemp(join(tmpdir(), "jobgate-x402-"));
  const ownStore = await openStore(
    { url: `sqlite:${join(own, "jobgate.db")}`, maxPending: options.maxPending ?? 10 },
    logger,
  );
  const other = new X402Gateway({ config: config(options.config), store: ownStore, logger });
  onTestFinished(async () => {
    await other.stop();
    await ownStore.close();
    await rm(own, { recursive: true, force: true });
  });
  return { gateway: other, store: ownStore };
}

describe("the offer", () => {
  it("One 402 parses with the official schemas of both versions", async () => {
    const { status, body, headers } = await post({});
    expect(status).toBe(402);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(body).toMatchObject({
      x402Version: 1,
      code: "payment_required",
      charged: false,
      retryable: false,
    });
    expect(parsePaymentRequired(body)).toMatchObject({ success: true, data: { x402Version: 1 } });
    const v2 = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
    expect(parsePaymentRequired(v2)).toMatchObject({ success: true, data: { x402Version: 2 } });
    expect(v2.resource).toEqual({ url: `${PUBLIC_URL}/x402/jobs/1/0` });
  });

  it("Where version 1 knows no network, the body is the version 2 object itself", async () => {
    const mainnet = { ...USDC, network: "eip155:1" } as const;
    const other = await another({ config: { acceptedTokens: [mainnet] } });
    await other.gateway.start();
    const { body, headers } = await post({}, { base: `http://${other.gateway.address}` });
    expect(parsePaymentRequired(body)).toMatchObject({ success: true, data: { x402Version: 2 } });
    expect(body).toMatchObject(decodePaymentRequiredHeader(headers.get("payment-required") ?? ""));
  });

  it("Every 402 holds a fresh offer, also one that refuses a payment", async () => {
    const { v2 } = await requestOffer(jobUrl());
    const short = await signV2Payment({ offer: v2, account: accounts.payer, authorization: { value: "1" } });
    const { status, body, headers } = await post(short.headers);
    expect([status, body.code, body.charged]).toEqual([402, "payment_mismatch", false]);
    expect(decodePaymentRequiredHeader(headers.get("payment-required") ?? "").accepts).toEqual(v2.accepts);
  });
});

describe("the price", () => {
  it("is shown to anyone, in wei and in every token", async () => {
    const response = await fetch(`${jobUrl()}/price`);
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        service_id: 1,
        job_index: 0,
        price_wei: "1000000000000000",
        settlement_options: [
          {
            protocol: "x402",
            network: "eip155:84532",
            asset: USDC.asset,
            symbol: "USDC",
            amount: "3264000",
            pay_to: USDC.payTo,
            scheme: "exact",
            x402_endpoint: `${PUBLIC_URL}/x402/jobs/1/0`,
          },
        ],
      },
    ]);
  });

  it("of no job is 404, of a disabled one 403, with the ids as numbers", async () => {
    for (const [job, status, code] of [
      [9, 404, "job_not_found"],
      [2, 403, "x402_disabled"],
    ] as const) {
      const response = await fetch(`${jobUrl(job)}/price`);
      expect([response.status, await response.json()]).toMatchObject([
        status,
        { code, service_id: 1, job_index: job },
      ]);
      expect(response.headers.get("cache-control")).toBe("no-store");
    }
  });
});

describe("a paid request", () => {
  it("is answered 202 in the version that the client speaks", async () => {
    const { v1, v2 } = await requestOffer(jobUrl());
    const accepted = {
      status: "accepted",
      receipt: expect.stringMatching(/^[0-9a-f]{64}$/),
      service_id: 1,
      job_index: 0,
      call_id: expect.any(Number),
    };
    const second = await post((await signV2Payment({ offer: v2, account: accounts.payer })).headers);
    expect([second.status, second.body]).toEqual([202, accepted]);
    const inV2 = decodePaymentResponseHeader(second.headers.get("payment-response") ?? "");
    expect(inV2).toMatchObject({ success: true, network: "eip155:84532" });
    expect(second.headers.has("x-payment-response")).toBe(false);

    const first = await post((await signV1Payment({ offer: v1, account: accounts.payer })).headers);
    expect([first.status, first.body]).toEqual([202, accepted]);
    const inV1 = decodePaymentResponseHeader(first.headers.get("x-payment-response") ?? "");
    expect(inV1).toMatchObject({ success: true, network: "base-sepolia" });
    expect(first.headers.has("payment-response")).toBe(false);
  });

  it("is refused in the contract's order: no job, disabled, too large, no payment", async () => {
    const tooLarge = { body: "x".repeat(MAX_BODY + 1) };
    const garbage = { "payment-signature": "x" };
    expect(await post(garbage, { job: 9, ...tooLarge })).toMatchObject({
      status: 404,
      body: { code: "job_not_found", charged: false, service_id: 1, job_index: 9 },
    });
    expect(await post(garbage, { job: 2, ...tooLarge })).toMatchObject({
      status: 403,
      body: { code: "x402_disabled", charged: false, service_id: 1, job_index: 2 },
    });
    expect(await post(garbage, tooLarge)).toMatchObject({
      status: 413,
      body: { code: "body_too_large", charged: false, retryable: false },
    });
    expect(await post(garbage)).toMatchObject({
      status: 400,
      body: { code: "invalid_payment", charged: false },
    });
    const fits = { body: "x".repeat(MAX_BODY) };
    expect(await post({}, fits)).toMatchObject({ status: 402, body: { code: "payment_required" } });
  });

  it("An unexpected fault is 500 and does not claim that nothing was charged", async () => {
    const broken = await another();
    await broken.gateway.start();
    const base = `http://${broken.gateway.address}`;
    const payment = await sign(0, base);
    broken.store.findPaymentByFingerprint = () => Promise.reject(new TypeError("a bug"));
    const { status, body } = await post(payment.headers, { base });
    expect([status, body]).toEqual([
      500,
      {
        error: expect.not.stringContaining("a bug"),
        code: "internal_error",
        charged: "unknown",
        retryable: true,
      },
    ]);
  });
});

describe("a call's state", () => {
  const ask = async (callId: unknown, receipt?: unknown, tail = "") => {
    const headers = receipt === undefined ? {} : { authorization: `Bearer ${receipt}` };
    return fetch(`${url}/x402/calls/${callId}${tail}`, { headers });
  };
  const claimOf = async (callId: unknown) => {
    const request = { limit: 100, jobIds: [], leaseMs: 60_000, maxAttempts: 1, subscriber: "test" };
    const lease = (await store.claim(request)).find((call) => call.callId === callId);
    if (lease === undefined) throw new Error(`call ${callId} is not due`);
    return lease;
  };
  const buy = async () => (await post((await sign()).headers)).body;

  it("is for whoever holds the receipt, from queued to its result as the runner gave it", async () => {
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
    await store.ack(lease, result);
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

  it("of a call that failed is failed, and has no result", async () => {
    const { call_id, receipt } = await buy();
    await store.fail(await claimOf(call_id), "no luck");
    expect(await (await ask(call_id, receipt)).json()).toMatchObject({ state: "failed" });
    expect((await ask(call_id, receipt, "/result")).status).toBe(404);
  });

  it("is 401 without a receipt, and 404 with another's, a wrong one, or for a webhook's call", async () => {
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
      const { callId } = (await store.accept(webhook)) as { callId: number };
      expect((await ask(callId, mine.receipt, tail)).status).toBe(404);
      expect((await ask(2 ** 53 - 1, mine.receipt, tail)).status).toBe(404);
    }
    const basic = await fetch(`${url}/x402/calls/${mine.call_id}`, {
      headers: { authorization: `Basic ${mine.receipt}` },
    });
    expect(basic.status).toBe(401);
  });
});

describe("the counters", () => {
  it("accepted and payment_replayed", async () => {
    const payment = await sign();
    expect(await moved(() => post(payment.headers))).toEqual({ accepted: 1 });
    expect(await moved(() => post(payment.headers))).toEqual({ payment_replayed: 1 });
    expect(await moved(() => post(payment.headers, { body: "other" }))).toEqual({ payment_replayed: 1 });
  });

  it("job_not_found, policy_denied of a disabled job, payment_required", async () => {
    expect(await moved(() => post({}, { job: 9 }))).toEqual({ job_not_found: 1 });
    expect(await moved(() => post({}, { job: 2 }))).toEqual({ policy_denied: 1 });
    expect(await moved(() => post({}))).toEqual({ payment_required: 1 });
  });

  it("payment_invalid: unreadable, a mismatch, or refused by the facilitator", async () => {
    expect(await moved(() => post({ "x-payment": "x" }))).toEqual({ payment_invalid: 1 });
    const { v2 } = await requestOffer(jobUrl());
    const short = await signV2Payment({ offer: v2, account: accounts.payer, authorization: { value: "1" } });
    expect(await moved(() => post(short.headers))).toEqual({ payment_invalid: 1 });
    const poor = await signV2Payment({ offer: v2, account: accounts.caller });
    expect(await moved(() => post(poor.headers))).toEqual({ payment_invalid: 1 });
  });

  it("settlement_unknown", async () => {
    const payment = await sign();
    facilitator.add({ path: "/settle", fault: { kind: "cut" } });
    expect(await moved(() => post(payment.headers))).toEqual({ settlement_unknown: 1 });
  });

  it("settlement_failed", async () => {
    const token = { ...USDC, rpcUrl: chain.url, requireOnchainConfirmation: true };
    const other = await another({ config: { acceptedTokens: [token] } });
    await other.gateway.start();
    const base = `http://${other.gateway.address}`;
    const payment = await sign(0, base);
    // Cancelled by its payer between verify and settle: certain not to move.
    await parts.usdc.cancelAuthorization(accounts.payer, payment.signed.authorization.nonce);
    facilitator.add({ path: "/verify", fault: { kind: "answer", status: 200, body: { isValid: true } } });
    expect(await moved(() => post(payment.headers, { base }), base)).toEqual({ settlement_failed: 1 });
  });

  it("enqueue_failed: no room in the queue", async () => {
    const full = await another({ maxPending: 1 });
    await full.gateway.start();
    const base = `http://${full.gateway.address}`;
    const payments = [await sign(0, base), await sign(0, base)];
    expect((await post(payments[0]?.headers ?? {}, { base })).status).toBe(202);
    let refused: Reply | undefined;
    const deed = async () => {
      refused = await post(payments[1]?.headers ?? {}, { base });
    };
    expect(await moved(deed, base)).toEqual({ enqueue_failed: 1 });
    expect(refused).toMatchObject({
      status: 503,
      body: { code: "queue_full", charged: false, retryable: true },
    });
  });

  it("policy_denied, policy_error, and replay_denied beside policy_denied, of a restricted job", async () => {
    const claim = async () => {
      const signed = await signClaim({ account: accounts.caller, serviceId: 1n, jobIndex: 1, body: "work" });
      return claimHeaders(signed);
    };
    const buy = async (headers: Readonly<Record<string, string>>) =>
      post({ ...(await sign(1)).headers, ...headers }, { job: 1 });
    const counted = async (headers: Readonly<Record<string, string>>) => {
      const { payment_required: _, ...counts } = await moved(() => buy(headers));
      return counts;
    };
    expect(await counted({})).toEqual({ policy_denied: 1 });
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: "0x" });
    expect(await counted(await claim())).toEqual({ policy_error: 1 });
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: ALWAYS_TRUE });
    const used = await claim();
    expect(await counted(used)).toEqual({ accepted: 1 });
    expect(await counted(used)).toEqual({ policy_denied: 1, replay_denied: 1 });
  });

  it("auth_dry_run_allowed, _denied and _error", async () => {
    const dryRun = async (job: number) => {
      const claim = await signClaim({ account: accounts.caller, serviceId: 1n, jobIndex: job, body: "" });
      return fetch(`${jobUrl(job)}/auth-dry-run`, { method: "POST", headers: claimHeaders(claim) });
    };
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: ALWAYS_TRUE });
    expect(await moved(() => dryRun(0))).toEqual({ auth_dry_run_allowed: 1 });
    expect(await moved(() => dryRun(1))).toEqual({ auth_dry_run_allowed: 1 });
    expect(await moved(() => dryRun(2))).toMatchObject({ auth_dry_run_denied: 1 });
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: "0x" });
    expect(await moved(() => dryRun(1))).toMatchObject({ auth_dry_run_error: 1 });
  });
});

describe("embedding", () => {
  it("starts and stops as a library, with a socket of its own, and health is text", async () => {
    const { gateway: embedded } = await another();
    await embedded.start();
    const base = `http://${embedded.address}`;
    const health = await rawRequest(base, "GET /x402/health");
    expect(health).toMatchObject({ status: 200, body: "ok" });
    await embedded.stop();
    await embedded.stop();
    await expect(rawRequest(base, "GET /x402/health")).rejects.toThrow(/ECONNREFUSED/);
  });

  it("rejects its start when the address is taken, and leaves nothing running", async () => {
    const port = Number(gateway.address.split(":")[1]);
    const second = await another({ config: { bindAddress: { kind: "tcp", host: "127.0.0.1", port } } });
    await expect(second.gateway.start()).rejects.toThrow(/EADDRINUSE/);
    let lookedAt = 0;
    const { listPayments } = second.store;
    second.store.listPayments = (filter) => {
      lookedAt++;
      return listPayments(filter);
    };
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(lookedAt).toBe(0);
  });

  it("answers 429 to a client that keeps asking without ever paying", async () => {
    const limits = { maxUnpaidPerSecondPerClient: 3, maxVerifiesPerClient: 1, maxVerifies: 1 };
    const other = await another({ config: { limits } });
    await other.gateway.start();
    const base = `http://${other.gateway.address}`;
    const replies = await Promise.all(Array.from({ length: 6 }, () => post({}, { base })));
    expect(replies.map(({ status }) => status).sort()).toEqual([402, 402, 402, 429, 429, 429]);
    const limited = replies.find(({ status }) => status === 429);
    expect(limited?.body).toMatchObject({ code: "rate_limited", charged: false, retryable: true });
    expect(limited?.headers.get("retry-after")).toBe("1");
  });
});
