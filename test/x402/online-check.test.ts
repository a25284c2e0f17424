import { x402UptoPermit2ProxyAddress } from "@x402/evm";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { AcceptedToken, X402Config } from "../../src/config/config.ts";
import { toRemoteFacilitator } from "../../src/config/facilitators.ts";
import { checkX402Peers } from "../../src/x402/online-check.ts";
import { accounts } from "../helpers/accounts.ts";
import { type Anvil, borrowAnvil } from "../helpers/anvil.ts";
import { type Facilitator, startFacilitator } from "../helpers/facilitator.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";
import { installPermit2 } from "../helpers/permit2.ts";
import { deployUsdc, type Token } from "../helpers/usdc.ts";

const NOBODY = "0x000000000000000000000000000000000000dEaD";

describe("Checking peers against the configuration", () => {
  let anvil: Anvil;
  let usdc: Token;
  let facilitator: Facilitator;
  const listeners: HttpListener[] = [];

  beforeAll(async () => {
    anvil = await borrowAnvil();
    usdc = await deployUsdc({ anvil });
    facilitator = await startFacilitator({ anvil });
  });
  afterAll(async () => {
    await Promise.all([...listeners.map((listener) => listener.stop()), facilitator?.stop()]);
    await anvil?.stop();
  });

  function config(
    options: {
      facilitatorUrl?: string;
      token?: Partial<AcceptedToken>;
      contract?: `0x${string}`;
      jobs?: X402Config["jobs"];
    } = {},
  ) {
    const result: X402Config = {
      bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
      publicUrl: "http://127.0.0.1",
      facilitators: [toRemoteFacilitator(options.facilitatorUrl ?? facilitator.url)],
      facilitatorTimeoutMs: 30_000,
      quoteTtlSecs: 300,
      maxBodyBytes: 1,
      corsOrigins: ["*"],
      maxUndecided: 100_000,
      maxOpenPerPayer: 256,
      settleMarginSecs: 60,
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
      ...(options.jobs && { jobs: options.jobs }),
      limits: { maxUnpaidPerSecondPerClient: 1, maxVerifiesPerClient: 1, maxVerifies: 1 },
      parts: new Map(),
    };
    return result;
  }
  const problems = async (options?: Parameters<typeof config>[0]) =>
    (await checkX402Peers(config(options))).problems.map(
      ({ path, message }) => `${path.join(".")}: ${message}`,
    );

  test("Peers that match have no problems", async () => {
    expect(await problems()).toEqual([]);
  });

  test("Notes what each facilitator supports", async () => {
    const { notes } = await checkX402Peers(config());
    const signer = accounts.facilitator.address;
    expect(notes).toEqual([
      `127.0.0.1:${facilitator.port}: exact on eip155:84532 (v2), base-sepolia (v1); signers ${signer}`,
    ]);
  });

  test("Notes address and balance of the local facilitator, and reports an RPC of another chain", async () => {
    const { address, privateKey } = accounts.facilitator;
    const local = (network: string): X402Config => ({
      ...config(),
      facilitators: [
        {
          kind: "local",
          name: "local",
          signers: [{ privateKey }],
          chains: [{ network, rpcUrl: anvil.rpcUrl }],
          maxFeePerGasWei: 10n ** 10n,
          minBalanceWei: 10n ** 24n,
        },
      ],
    });
    const { notes, problems } = await checkX402Peers(local("eip155:84532"));
    expect(problems).toEqual([]);
    expect(notes).toEqual([
      expect.stringMatching(
        `^local: exact, upto on eip155:84532; ${address} \\(balance [0-9.]+, less than min_balance 1000000\\)$`,
      ),
    ]);
    expect((await checkX402Peers(local("eip155:8453"))).problems).toContainEqual({
      path: ["x402", "facilitators", 0, "rpc_urls"],
      message: "has the RPC of eip155:84532 for eip155:8453",
    });
  });

  test("Reports a chain without Permit2, or with its creation code in its place, for a token that is paid by it", async () => {
    const token = { transferMethod: "permit2" } as const;
    const missing =
      "x402.accepted_tokens.0.transfer_method: is permit2, but eip155:84532 does not have Permit2 and x402's proxy; expected another method";
    expect(await problems({ token })).toContain(missing);
    await installPermit2(anvil, { code: "creation" });
    expect(await problems({ token })).toContain(missing);
    await installPermit2(anvil);
    expect(await problems({ token })).toEqual([]);
  });

  test("Reports a chain without x402's proxy for payments by use, and a facilitator without them, for jobs that are paid so", async () => {
    await installPermit2(anvil);
    await anvil.client.setCode({ address: x402UptoPermit2ProxyAddress, bytecode: "0x" });
    const token = { transferMethod: "permit2" } as const;
    expect(await problems({ token })).toEqual([]);
    const jobs = [{ serviceId: 1n, jobIndex: 0, charge: ["used"] }] as const;
    const byUse = await startFacilitator({ anvil, settlesByUse: true });
    onTestFinished(() => byUse.stop());
    const facilitatorUrl = byUse.url;
    expect(await problems({ token, jobs, facilitatorUrl })).toEqual([
      `x402.accepted_tokens.0.transfer_method: is permit2, but eip155:84532 does not have Permit2 and x402's proxy for jobs with charge = "used"; expected another method`,
    ]);
    await installPermit2(anvil);
    expect(await problems({ token, jobs, facilitatorUrl })).toEqual([]);
    expect(await problems({ token, jobs })).toEqual([
      'jobs.0.charge: is "used", but no facilitator settles "upto" payments on eip155:84532; expected one that does',
    ]);
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

  test.each([
    ["that redirects", 302, "", /status 302/],
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
