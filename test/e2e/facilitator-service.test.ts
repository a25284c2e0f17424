import { HTTPFacilitatorClient } from "@x402/core/http";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { pino } from "pino";
import type { PrivateKeyAccount } from "viem/accounts";
import { describe, expect, onTestFinished, test } from "vitest";
import { HttpServer } from "../../src/http/server.ts";
import { loadMethods } from "../../src/load-parts.ts";
import { FacilitatorService } from "../../src/parts/facilitator-service/service.ts";
import type { FacilitatorRequest } from "../../src/x402/facilitators/facilitator.ts";
import { RemoteFacilitator } from "../../src/x402/facilitators/remote-facilitator.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { type SettlerHarness, startSettlerChain } from "../parts/local-facilitator/harness.ts";

const TOKEN = "token-of-a-seller";
const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };
const logger = pino({ level: "silent" });
const chain = startBeforeAll(startSettlerChain);

const service = startBeforeAll(() => startService());

/** A service with its own settler. */
async function startService(
  options: Parameters<typeof chain.startSettler>[0] = {},
  maxInProgress?: { readonly verify: number; readonly settle: number },
) {
  const settler: SettlerHarness = await chain.startSettler(options);
  const listener = new FacilitatorService({
    config: {
      bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
      tokens: [
        { name: "another seller", token: "another-token" },
        { name: "seller", token: TOKEN },
      ],
    },
    facilitator: () => settler.facilitator,
    versions: (await loadMethods()).versions,
    server: new HttpServer({ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, logger }),
    logger,
    ...(maxInProgress && { maxInProgress }),
  });
  await listener.start();
  const url = `http://${listener.address}`;
  return {
    url,
    settler,
    /** Another jobgate's client. */
    client: new RemoteFacilitator({ name: "service", url, headers: AUTHORIZED, timeoutMs: 20_000 }),
    async post(path: string, body: unknown, headers: Readonly<Record<string, string>> = AUTHORIZED) {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      const response = await fetch(url + path, { method: "POST", headers, body: text });
      return { status: response.status, ...((await response.json()) as { code?: string; error?: string }) };
    },
    async stop() {
      await listener.stop();
      await settler.stop();
    },
  };
}

function toBody({ payload, requirements }: FacilitatorRequest) {
  return { x402Version: payload.x402Version, paymentPayload: payload, paymentRequirements: requirements };
}

describe("A facilitator service", () => {
  test("Serves another jobgate's client, and settles a payment and reports it once, however often the client sends it", async () => {
    const { client, settler } = service;
    const request = await chain.request();
    const [account] = settler.accounts as [PrivateKeyAccount];
    const mined = await chain.minedBy(account);
    expect(await client.supported()).toEqual(await settler.facilitator.supported());
    const payer = expect.stringMatching(/^0x[0-9a-f]{40}$/);
    expect(await client.verify(request)).toEqual({ kind: "valid", payer });
    const atOnce = await Promise.all([client.settle(request), client.settle(request)]);
    const answers = [...atOnce, await client.settle(request)];
    expect(answers.filter(({ kind }) => kind === "success")).toMatchObject([
      { network: chain.network, payer },
    ]);
    const toldBefore = { kind: "no_answer", reason: "duplicate_settlement" };
    expect(answers.filter(({ kind }) => kind !== "success")).toEqual([toldBefore, toldBefore]);
    expect(await chain.minedBy(account)).toBe(mined + 1);
  });

  test("Serves the official client", async () => {
    const official = new HTTPFacilitatorClient({
      url: service.url,
      createAuthHeaders: async () => ({ verify: AUTHORIZED, settle: AUTHORIZED, supported: AUTHORIZED }),
    });
    const { payload, requirements } = await chain.request();
    const asked = [payload as PaymentPayload, requirements as PaymentRequirements] as const;
    const { kinds } = await official.getSupported();
    expect(kinds).toContainEqual({ x402Version: 2, scheme: "exact", network: chain.network });
    expect(await official.verify(...asked)).toMatchObject({ isValid: true });
    expect(await official.settle(...asked)).toMatchObject({ success: true, network: chain.network });
    const more = { ...asked[1], amount: "999999" };
    expect(await official.verify(asked[0], more)).toMatchObject({ isValid: false });
    expect(await official.settle(asked[0], more)).toMatchObject({ success: false, transaction: "" });
  });

  test.each<[string, Readonly<Record<string, string>>]>([
    ["no token", {}],
    ["a wrong token", { authorization: "Bearer token-of-nobody" }],
    ["a token in another scheme", { authorization: `Basic ${TOKEN}` }],
  ])("Answers a request with %s with 401 before it reads the body", async (_what, headers) => {
    for (const path of ["/verify", "/settle"]) {
      const answer = await service.post(path, "not JSON", headers);
      expect(answer).toMatchObject({
        status: 401,
        code: "unauthorized",
        error: expect.stringMatching(/Bearer <token>/),
      });
    }
    const response = await fetch(`${service.url}/supported`, { headers });
    expect([response.status, response.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
  });

  test("Refuses a client that guesses tokens, while right tokens from its address are served", async () => {
    const guesses = Array.from({ length: 40 }, (_, i) =>
      service.post("/verify", "{}", { authorization: `Bearer guess-${i}` }),
    );
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([401, 429]));
    expect(await service.client.verify(await chain.request())).toMatchObject({ kind: "valid" });
  });

  test("Refuses a verification of a seller who has too many in progress", async () => {
    const busy = await startService({}, { verify: 1, settle: 1 });
    const request = await chain.request();
    const during = chain.rpc.during({}, () => busy.post("/verify", toBody(request)));
    expect(await busy.client.verify(request)).toMatchObject({ kind: "valid" });
    expect(await during).toMatchObject({ status: 429, code: "rate_limited" });
    expect(await busy.client.settle(request)).toMatchObject({ kind: "success" });
    await busy.stop();
  });

  test.each<[string, (body: ReturnType<typeof toBody>) => unknown, number]>([
    ["a body that is not JSON", () => "not JSON", 400],
    ["a list", (body) => [body], 400],
    ["no payment", ({ paymentPayload: _, ...body }) => body, 400],
    ["no requirements", ({ paymentRequirements: _, ...body }) => body, 400],
    [
      "another version than the payment's",
      ({ paymentPayload, paymentRequirements }) => ({
        x402Version: 1,
        paymentPayload,
        paymentRequirements: {
          ...paymentRequirements,
          network: "base-sepolia",
          maxAmountRequired: "1000",
          resource: "http://127.0.0.1/",
          description: "A job",
        },
      }),
      400,
    ],
    [
      "deep nesting",
      (body) =>
        JSON.stringify(body).replace('"payload":{', `"deep":${"[".repeat(40)}${"]".repeat(40)},"payload":{`),
      400,
    ],
    ["a body of 300 KiB", (body) => JSON.stringify(body) + " ".repeat(300 * 1024), 413],
  ])("Refuses %s", async (_what, change, status) => {
    const body = change(toBody(await chain.request()));
    for (const path of ["/verify", "/settle"])
      expect(await service.post(path, body)).toMatchObject({ status });
  });

  test.each([
    ["an amount that is no number", { amount: "abc" }],
    ["another network", { network: "eip155:1" }],
    ["another scheme", { scheme: "upto" }],
    ["a token that is no contract", { asset: `0x${"12".repeat(20)}` }],
  ])("Answers a payment of %s as invalid", async (_what, changes) => {
    const { payload, requirements } = await chain.request();
    const request = {
      payload: { ...payload, accepted: { ...(payload as PaymentPayload).accepted, ...changes } },
      requirements: { ...requirements, ...changes },
    } as FacilitatorRequest;
    expect(await service.client.verify(request)).toMatchObject({ kind: "invalid" });
    expect(await service.client.settle(request)).toMatchObject({ kind: "refused" });
  });

  test("Says that a settlement is undecided, never that it is refused, and settles when asked again", async () => {
    const hasty = await startService({ timeoutMs: 500 });
    onTestFinished(() => hasty.stop());
    const request = await chain.request();
    chain.rpc.add({ rpcMethod: "eth_estimateGas", fault: { kind: "cut" } });
    try {
      expect(await hasty.client.settle(request)).toMatchObject({ kind: "no_answer" });
      expect(await hasty.post("/settle", toBody(request))).toMatchObject({
        status: 503,
        code: "settlement_unknown",
        charged: "unknown",
      });
    } finally {
      chain.rpc.clear();
    }
    await expect
      .poll(() => hasty.client.settle(request), { timeout: 50_000 })
      .toMatchObject({ kind: "success" });
    expect(await chain.settled([request])).toBe(1);
  });

  test("Is unavailable for another jobgate before any charge while its settler has no funds", async () => {
    const poor = await startService({ fundsWei: 10n ** 14n });
    try {
      const request = await chain.request();
      await expect(poor.client.verify(request)).rejects.toMatchObject({ code: "facilitator_unavailable" });
      expect(await poor.post("/verify", toBody(request))).toMatchObject({
        status: 503,
        code: "settler_unfunded",
      });
      expect(await chain.settled([request])).toBe(0);
    } finally {
      await poor.stop();
    }
  });
});
