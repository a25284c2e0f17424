import { generatePaymentId } from "@x402/extensions/payment-identifier";
import { beforeEach, describe, expect, it } from "vitest";
import { OPERATION_NAMES } from "../../src/store/operations.ts";
import { accounts } from "../helpers/accounts.ts";
import {
  base64Json,
  requestOffer,
  signV1Payment,
  signV2Payment,
  withIdentifier,
} from "../helpers/clients.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { buyTool } from "../helpers/mcp.ts";
import { type MppChallenge, requestChallenges, signChallenge } from "../helpers/mpp.ts";
import { soldByBoth } from "../helpers/protocol-tables.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { deployWallet } from "../helpers/wallets.ts";
import { startAnotherGateway, type TestGateway } from "../x402/gateway-harness.ts";
import { JOB, signedPayload, USDC } from "../x402/payments.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const facilitator = startBeforeAll(() => startFaultProxy({ target: parts.facilitator.url }));
beforeEach(() => facilitator.clear());

type Config = Parameters<TestGateway["reload"]>[0];

/** The shop with all protocols. */
const shop = (change: Config = {}): Config => ({
  facilitatorUrl: facilitator.url,
  parts: soldByBoth({ secretKeys: ["k".repeat(32)], realm: "jobgate.example", challengeTtlSecs: 300 }),
  ...change,
});
const openShop = () => startAnotherGateway({ config: shop() });

/** Reloads after which the job cannot be bought as before, with the refusal of a payment that was not seen. */
const CHANGES: readonly [name: string, config: Config, refusal: object][] = [
  ["removed", { jobPricing: new Map() }, { status: 404, code: "job_not_found" }],
  [
    "disabled",
    { jobPolicies: [{ ...JOB, invocationMode: "disabled" }] },
    { status: 403, code: "x402_disabled" },
  ],
  [
    "given a schema that the body does not match",
    { jobs: [{ ...JOB, input: { contentType: "application/json", schema: '{"type":"number"}' } }] },
    { status: 422, code: "invalid_input" },
  ],
  [
    "restricted to callers that the request does not name",
    {
      jobPolicies: [
        {
          ...JOB,
          invocationMode: "restricted_paid",
          restriction: {
            authMode: "delegated_caller_signature",
            chainRpcUrl: "http://127.0.0.1:9",
            chainContract: accounts.stranger.address,
            permissionCacheSecs: 0,
          },
        },
      ],
    },
    { status: 400, code: "missing_caller" },
  ],
];

const PROTOCOLS = ["x402", "x402 v1", "evm", "blueprintevm", "mcp", "evm over mcp"] as const;
type ProtocolName = (typeof PROTOCOLS)[number];
type Answer = Record<string, unknown>;
type Send = (body: string) => Promise<Answer>;

/** Signs a payment for a body, and returns what sends it with that body or another. */
async function signAt(protocol: ProtocolName, gateway: TestGateway, signedFor = "work"): Promise<Send> {
  const path = protocol === "blueprintevm" ? "/mpp/jobs/1/0" : "/x402/jobs/1/0";
  let headers: Readonly<Record<string, string>>;
  if (protocol === "x402" || protocol === "mcp") ({ headers } = await gateway.sign());
  else if (protocol === "x402 v1") {
    const { v1 } = await requestOffer(gateway.jobUrl());
    ({ headers } = await signV1Payment({ offer: v1, account: accounts.payer }));
  } else {
    const [challenge] = await requestChallenges(`${gateway.url}${path}`, signedFor);
    ({ headers } = await signChallenge({ challenge: challenge as MppChallenge, account: accounts.payer }));
  }
  if (protocol === "mcp" || protocol === "evm over mcp")
    return (body) => buyTool(`${gateway.url}/mcp`, { name: "job-1-0", body, headers });
  return async (body) => {
    const response = await fetch(`${gateway.url}${path}`, { method: "POST", headers, body });
    return { ...((await response.json()) as Answer), status: response.status };
  };
}

const REPLAY = { status: 409, code: "payment_replay" };
const UNDECIDED = { status: 503, code: "settlement_unknown", charged: "unknown", retryable: true };

describe.each(PROTOCOLS)("A payment over %s", (protocol) => {
  it("Gets its first outcome whatever happened to its job since, and a replay with another body", async () => {
    const gateway = await openShop();
    const [send, sendUnused] = [await signAt(protocol, gateway), await signAt(protocol, gateway)];
    const first = await send("work");
    expect(first).toMatchObject({ status: 202, call_id: 1 });
    for (const [name, change, refusal] of CHANGES) {
      await gateway.reload(shop(change));
      expect([name, await send("work")]).toEqual([name, first]);
      expect([name, await send("other")]).toMatchObject([name, REPLAY]);
      // MCP has no tool for a job that is not for sale.
      const unused = await sendUnused("work").catch((error: unknown) => ({ error: String(error) }));
      const isGone = unused.error !== undefined && String(unused.error).includes("There is no tool");
      if (!(isGone && protocol.endsWith("mcp"))) expect([name, unused]).toMatchObject([name, refusal]);
    }
    expect((await gateway.store.totals()).payments).toMatchObject({ settled: 1, intent: 0 });
  });
});

describe.each(["x402", "evm", "mcp"] as const)("A payment over %s that is not decided", (protocol) => {
  it("Gets 503 while it is undecided, and never hears that nothing was charged", async () => {
    const gateway = await openShop();
    const send = await signAt(protocol, gateway);
    facilitator.add({ path: "/settle", fault: { kind: "cut" } });
    expect(await send("work")).toMatchObject(UNDECIDED);
    for (const [name, change] of CHANGES) {
      await gateway.reload(shop(change));
      expect([name, await send("work")]).toMatchObject([name, UNDECIDED]);
    }
  });

  it("Gets the outcome of its purchase in progress, although its job has been removed", async () => {
    const gateway = await openShop();
    const send = await signAt(protocol, gateway);
    const again = facilitator.during({ path: "/verify" }, async () => {
      await gateway.reload(shop({ jobPricing: new Map() }));
      const answer = send("work");
      await fetch(`${gateway.url}/x402/health`);
      return { answer };
    });
    const first = await send("work");
    expect(first).toMatchObject({ status: 202 });
    expect(await (await again).answer).toEqual(first);
  });
});

const post = (gateway: TestGateway, path: string, headers: Readonly<Record<string, string>>, body = "work") =>
  fetch(`${gateway.jobUrl()}${path}`, { method: "POST", headers, body }).then(async (response) => ({
    status: response.status,
    body: (await response.json()) as Answer,
  }));

it("A failed payment for a removed job is settlement_failed, with nothing to pay instead", async () => {
  const token = { ...USDC, rpcUrl: parts.anvil.rpcUrl, requireOnchainConfirmation: true };
  const config = shop({ acceptedTokens: [token] });
  const gateway = await startAnotherGateway({ config });
  const payment = await gateway.sign();
  const { nonce } = payment.signed.authorization;
  const cancelled = facilitator.during({ path: "/settle" }, () =>
    parts.usdc.cancelAuthorization(accounts.payer, nonce),
  );
  expect(await gateway.post(payment.headers)).toMatchObject({ status: 402, body: { charged: false } });
  await cancelled;
  await gateway.reload({ ...config, jobPricing: new Map() });
  const { status, body, headers } = await gateway.post(payment.headers);
  expect([status, body]).toMatchObject([402, { code: "settlement_failed", accepts: [], charged: false }]);
  expect(headers.has("payment-response")).toBe(true);
});

it("A payment that comes again with a larger body than is allowed now, or a query string, is refused without a claim that nothing was charged", async () => {
  const gateway = await openShop();
  const [payment, unused] = [await gateway.sign(), await gateway.sign()];
  expect(await gateway.post(payment.headers)).toMatchObject({ status: 202 });
  await gateway.reload(shop({ maxBodyBytes: 3 }));
  for (const [path, refusal] of [
    ["", { status: 413, body: { code: "body_too_large" } }],
    ["?page=2", { status: 400, body: { code: "query_not_allowed" } }],
  ] as const) {
    const seen = await post(gateway, path, payment.headers);
    expect(seen).toMatchObject(refusal);
    expect(seen.body).toMatchObject({ charged: "unknown" });
    expect(await post(gateway, path, unused.headers)).toMatchObject({
      ...refusal,
      body: { ...refusal.body, charged: false },
    });
  }
});

it("A new payment of a smart account under its identifier gets the first outcome, although a reload refuses its body", async () => {
  const { payer } = accounts;
  const wallet = await deployWallet({ anvil: parts.anvil, name: "OwnedWallet", argument: payer.address });
  await parts.usdc.mint(wallet, 100_000_000n);
  const gateway = await openShop();
  const { v2: offer } = await requestOffer(gateway.jobUrl());
  const id = generatePaymentId();
  const [first, second] = await Promise.all(
    [1, 2].map(() =>
      signV2Payment({
        offer,
        account: payer,
        authorization: { from: wallet },
        edit: (payload) => withIdentifier(payload, id),
      }),
    ),
  );
  const bought = await gateway.post(first?.headers ?? {});
  expect(bought.status).toBe(202);
  const input = { contentType: "application/json", schema: '{"type":"number"}' };
  await gateway.reload(shop({ jobs: [{ ...JOB, input }] }));
  const again = await gateway.post(second?.headers ?? {});
  expect([again.status, again.body]).toEqual([202, bought.body]);
});

describe("A dry run", () => {
  it("Of a payment that bought its job is allowed and replayed, also once the job is removed; with another body it is a replay", async () => {
    const gateway = await openShop();
    const { headers } = await gateway.sign();
    expect(await gateway.post(headers)).toMatchObject({ status: 202 });
    for (const change of [{}, ...CHANGES.map(([, change]) => change)]) {
      await gateway.reload(shop(change));
      expect(await post(gateway, "/auth-dry-run", headers)).toEqual({
        status: 200,
        body: { allowed: true, replayed: true, service_id: 1, job_index: 0 },
      });
      expect(await post(gateway, "/auth-dry-run", headers, "other")).toMatchObject({
        status: 409,
        body: { allowed: false, code: "payment_replay" },
      });
    }
  });

  it("Of an undecided payment for a removed job is 503", async () => {
    const gateway = await openShop();
    const { headers } = await gateway.sign();
    facilitator.add({ path: "/settle", fault: { kind: "cut" } });
    await gateway.post(headers);
    await gateway.reload(shop({ jobPricing: new Map() }));
    expect(await post(gateway, "/auth-dry-run", headers)).toMatchObject({
      status: 503,
      body: { allowed: false, code: "settlement_unknown", charged: "unknown" },
    });
  });
});

it("A tool that was renamed or takes other arguments now gives the first outcome of a call that was paid before", async () => {
  const gateway = await openShop();
  const [{ headers }, unused] = [await gateway.sign(), await gateway.sign()];
  const call = (name: string, body = "work") => buyTool(`${gateway.url}/mcp`, { name, body, headers });
  const first = await call("job-1-0");
  expect(first).toMatchObject({ status: 202, call_id: 1 });
  const input = { contentType: "application/json", schema: '{"type":"object"}' };
  await gateway.reload(shop({ jobs: [{ ...JOB, name: "sums", input }] }));
  expect(await call("job-1-0")).toEqual(first);
  expect(await call("sums")).toEqual(first);
  expect(await call("job-1-0", "other")).toMatchObject(REPLAY);
  await expect(
    buyTool(`${gateway.url}/mcp`, { name: "job-1-0", body: "work", headers: unused.headers }),
  ).rejects.toThrow("There is no tool job-1-0.");
});

/** Operations that no request waits for: periodic ones, and the list of refusals, which is written for many at once. */
const IN_BACKGROUND = [
  "listUndecided",
  "listEndingAuthorizations",
  "endWatches",
  "holdLock",
  "saveRefusedPayments",
];

it("The store is not read for requests without a payment, and not written for payments without a valid signature", async () => {
  const gateway = await openShop();
  const payload = await signedPayload();
  await gateway.post({});
  const calls: string[] = [];
  const store = gateway.store as unknown as Record<string, (...input: unknown[]) => Promise<unknown>>;
  for (const name of OPERATION_NAMES.filter((name) => !IN_BACKGROUND.includes(name))) {
    const operation = store[name];
    if (operation === undefined) continue;
    store[name] = (...input) => {
      calls.push(name);
      return operation.apply(store, input);
    };
  }
  for (const job of [0, 2, 9]) await gateway.post({}, { job });
  expect(calls).toEqual([]);
  const forged = { ...payload, payload: { ...payload.payload, signature: `0x${"11".repeat(65)}` } };
  const headers = { "payment-signature": base64Json(forged) };
  for (const job of [2, 9]) {
    await gateway.post(headers, { job });
    expect(calls.splice(0)).toEqual(["findPaymentByFingerprint"]);
  }
});
