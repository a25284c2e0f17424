import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { AcceptedToken, X402Config } from "../../src/config/config.ts";
import { findX402Problems } from "../../src/x402/online-check.ts";
import { accounts } from "../helpers/accounts.ts";
import { type Anvil, startAnvil } from "../helpers/anvil.ts";
import { type Facilitator, startFacilitator } from "../helpers/facilitator.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";
import { deployUsdc, type Token } from "../helpers/usdc.ts";

const NOBODY = "0x000000000000000000000000000000000000dEaD";

describe("Checking peers against the configuration", () => {
  let anvil: Anvil;
  let usdc: Token;
  let facilitator: Facilitator;
  const listeners: HttpListener[] = [];

  beforeAll(async () => {
    anvil = await startAnvil();
    usdc = await deployUsdc({ anvil });
    facilitator = await startFacilitator({ anvil });
  });
  afterAll(async () => {
    await Promise.all([...listeners.map((listener) => listener.stop()), facilitator?.stop()]);
    await anvil?.stop();
  });

  function config(
    options: { facilitatorUrl?: string; token?: Partial<AcceptedToken>; contract?: `0x${string}` } = {},
  ) {
    const result: X402Config = {
      bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
      publicUrl: "http://127.0.0.1",
      facilitatorUrl: options.facilitatorUrl ?? facilitator.url,
      facilitatorTimeoutMs: 2_000,
      quoteTtlSecs: 300,
      maxBodyBytes: 1,
      maxUndecided: 100_000,
      maxOpenPerPayer: 256,
      defaultInvocationMode: "disabled",
      acceptedTokens: [
        {
          network: "eip155:84532",
          asset: usdc.address,
          symbol: "USDC",
          decimals: 6,
          payTo: accounts.payTo.address,
          rate: { kind: "fixed", ratePerNativeUnit: "3200" },
          markupBps: 0,
          transferMethod: "eip3009",
          eip3009: { name: "USDC", version: "2" },
          rpcUrl: anvil.rpcUrl,
          confirmations: 1,
          requireOnchainConfirmation: true,
          ...options.token,
        },
      ],
      jobPolicies: [
        {
          serviceId: 1n,
          jobIndex: 0,
          invocationMode: "restricted_paid",
          restriction: {
            authMode: "payer_is_caller",
            chainRpcUrl: anvil.rpcUrl,
            chainContract: options.contract ?? usdc.address,
            permissionCacheSecs: 0,
          },
        },
      ],
      priceSource: "map",
      jobPricing: new Map(),
      limits: { maxUnpaidPerSecondPerClient: 1, maxVerifiesPerClient: 1, maxVerifies: 1 },
    };
    return result;
  }
  const problems = async (options?: Parameters<typeof config>[0]) =>
    (await findX402Problems(config(options))).map(({ path, message }) => `${path.join(".")}: ${message}`);

  test("Peers that match have no problems", async () => {
    expect(await problems()).toEqual([]);
  });

  test("Reports an RPC of another chain and a facilitator that does not settle on it", async () => {
    const found = await problems({ token: { network: "eip155:8453" } });
    expect(found.sort()).toEqual([
      'x402.accepted_tokens.0.network: the facilitator does not settle "exact" payments on eip155:8453 in x402 version 2; expected one of eip155:84532',
      "x402.accepted_tokens.0.rpc_url: is of eip155:84532; expected eip155:8453",
    ]);
  });

  test("Reports a token or a policy's contract at an address without code", async () => {
    expect(await problems({ token: { asset: NOBODY }, contract: NOBODY })).toEqual([
      "x402.accepted_tokens.0.asset: has no contract on eip155:84532; expected a token",
      "x402.job_policies.0.chain_contract: has no contract on this chain; expected the one to ask",
    ]);
  });

  test("Reports decimals that differ from the token's own", async () => {
    expect(await problems({ token: { decimals: 18 } })).toEqual([
      "x402.accepted_tokens.0.decimals: is 18; expected 6, as the token says",
    ]);
  });

  test("Reports a rate source without a rate", async () => {
    const rate = { kind: "http", url: "http://127.0.0.1:1", pointer: "/rate", maxAgeMs: 60_000 } as const;
    expect(await problems({ token: { rate: { ...rate, refreshMs: 5_000 } } })).toEqual([
      "x402.accepted_tokens.0.rate_source.http.url: gives no rate: it does not answer",
    ]);
  });

  test.each([
    ["that redirects", 302, "", /does not answer/],
    ["that answers 500", 500, "", /status 500/],
    ["that answers HTML", 200, "<html>", /something other than JSON/],
    ["that answers with other JSON", 200, "{}", /no list of kinds/],
  ])("Reports a facilitator %s", async (_, status, body, message) => {
    const listener = await listenHttp({
      handler: (request, response) => {
        const elsewhere = status === 302 && request.url === "/supported";
        response.writeHead(status, elsewhere ? { location: `${facilitator.url}/supported` } : {}).end(body);
      },
    });
    listeners.push(listener);
    const found = await problems({ facilitatorUrl: listener.url });
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(message);
  });

  test("Sends the credentials in the facilitator's URL as a header", async () => {
    const seen: (string | undefined)[] = [];
    const listener = await listenHttp({
      handler: (request, response) => {
        seen.push(request.headers.authorization);
        const kinds = [{ x402Version: 2, scheme: "exact", network: "eip155:*" }];
        response.writeHead(200).end(JSON.stringify({ kinds }));
      },
    });
    listeners.push(listener);
    const facilitatorUrl = listener.url.replace("http://", "http://user:p%40ss@");
    expect(await problems({ facilitatorUrl })).toEqual([]);
    expect(seen).toEqual([`Basic ${Buffer.from("user:p@ss").toString("base64")}`]);
  });
});
