import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Method } from "../../src/x402/methods/method.ts";
import { Methods } from "../../src/x402/methods/methods.ts";
import { checkX402Peers } from "../../src/x402/online-check.ts";
import { accounts } from "../helpers/accounts.ts";
import { type Anvil, borrowAnvil } from "../helpers/anvil.ts";
import { type Facilitator, startFacilitator } from "../helpers/facilitator.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";
import { deployUsdc, type Token } from "../helpers/usdc.ts";
import { OTHER_METHOD, OTHER_SCHEME } from "./payments.ts";
import { type PeersOptions, peersConfig } from "./peers-config.ts";

/** EIP-3009, and a method that can charge a part of what was signed. */
const METHODS = new Methods([OTHER_METHOD], undefined, undefined, OTHER_SCHEME);
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

  const config = (options: Omit<PeersOptions, "anvil" | "usdc"> = {}) =>
    peersConfig({ facilitatorUrl: facilitator.url, anvil, usdc, ...options });
  const problems = async (options?: Parameters<typeof config>[0], methods = METHODS) =>
    (await checkX402Peers(config(options), methods)).problems.map(
      ({ path, message }) => `${path.join(".")}: ${message}`,
    );

  test("Peers that match have no problems", async () => {
    expect(await problems()).toEqual([]);
  });

  test("Notes what each facilitator supports", async () => {
    const { notes } = await checkX402Peers(config(), METHODS);
    const signer = accounts.facilitator.address;
    expect(notes).toEqual([
      `127.0.0.1:${facilitator.port}: exact on eip155:84532 (v2), base-sepolia (v1); signers ${signer}`,
    ]);
  });

  test("A facilitator in this process settles on its chains by any scheme", async () => {
    const jobs = [{ serviceId: 1n, jobIndex: 0, charge: ["used"] }] as const;
    const found = async (network: string) => {
      const chains = [{ network, rpcUrl: anvil.rpcUrl }];
      const facilitators = [{ kind: "in_process", name: "own", chains }] as const;
      const token = { transferMethod: "other" } as const;
      return checkX402Peers({ ...config({ token, jobs }), facilitators }, METHODS);
    };
    expect(await found("eip155:84532")).toEqual({ notes: [], problems: [] });
    expect((await found("eip155:8453")).problems.map(({ path }) => path)).toEqual([
      ["x402", "accepted_tokens", 0, "network"],
      ["jobs", 0, "charge"],
    ]);
  });

  test("Reports what a token's method misses on its chain, for each scheme that jobs are sold in", async () => {
    const asked: string[] = [];
    const picky: Method = {
      ...OTHER_METHOD,
      async findChainProblem(_rpc, { network, scheme }) {
        asked.push(scheme);
        return scheme === "upto" ? `is other, which ${network} does not have` : undefined;
      },
    };
    const token = { transferMethod: "other" } as const;
    const jobs = [{ serviceId: 1n, jobIndex: 0, charge: ["used"] }] as const;
    const methods = new Methods([picky], undefined, undefined, OTHER_SCHEME);
    expect(await problems({ token }, methods)).toEqual([]);
    expect(asked).toEqual(["exact"]);
    expect(await problems({ token, jobs }, methods)).toContain(
      "x402.accepted_tokens.0.transfer_method: is other, which eip155:84532 does not have",
    );
  });

  test("Reports metered jobs that no facilitator settles", async () => {
    const jobs = [{ serviceId: 1n, jobIndex: 0, charge: ["used"] }] as const;
    const metered = await startFacilitator({ anvil, meteredSettler: true });
    onTestFinished(() => metered.stop());
    const token = { transferMethod: "other" } as const;
    expect(await problems({ token, jobs, facilitatorUrl: metered.url })).toEqual([]);
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

  test("Reports a token at an address without code", async () => {
    expect(await problems({ token: { asset: NOBODY } })).toEqual([
      "x402.accepted_tokens.0.asset: has no contract on eip155:84532; expected a token",
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
