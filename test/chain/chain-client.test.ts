import { json } from "node:stream/consumers";
import { beforeEach, expect, test } from "vitest";
import { ChainClient } from "../../src/chain/chain-client.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";

/** RPC that names its chain and reverts every call. */
let chainId = 1;
let isUp = true;
let asked: string[] = [];
let authorizations: (string | undefined)[] = [];

const rpc = startBeforeAll(() =>
  listenHttp({
    handler: (request, response) => {
      void json(request).then((call) => {
        const { id, method } = call as { id: number; method: string };
        asked.push(method);
        authorizations.push(request.headers.authorization);
        if (!isUp) {
          request.socket.destroy();
          return;
        }
        const answer =
          method === "eth_chainId"
            ? { result: `0x${chainId.toString(16)}` }
            : { error: { code: 3, message: "execution reverted" } };
        response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
      });
    },
  }),
);
beforeEach(() => {
  chainId = 1;
  isUp = true;
  asked = [];
  authorizations = [];
});

const TO = "0x0000000000000000000000000000000000000001";
const open = (options: { chainId?: number; url?: string } = {}) =>
  new ChainClient({ rpcUrl: options.url ?? rpc.url, timeoutMs: 30_000, ...options });
const call = async (client: ReturnType<typeof open>) => (await client.connect()).callContract(TO, "0x");

test("Concurrent calls check the chain once", async () => {
  const client = open({ chainId: 1 });
  await Promise.all(Array.from({ length: 10 }, () => client.connect()));
  await client.connect();
  expect(asked).toEqual(["eth_chainId"]);
});

test("An RPC for another chain than the expected one is refused until it serves the expected one", async () => {
  const client = open({ chainId: 5 });
  await expect(client.connect()).rejects.toThrow("the RPC is for chain 1, expected chain 5");
  chainId = 5;
  await client.connect();
});

test("Without an expected chain, the first one seen becomes the expected one", async () => {
  const client = open();
  await client.connect();
  isUp = false;
  await expect(call(client)).rejects.toThrow();
  isUp = true;
  chainId = 2;
  await expect(client.connect()).rejects.toThrow("the RPC is for chain 2, expected chain 1");
  chainId = 1;
  await client.connect();
});

test("A call without an answer makes the next one check the chain again; a call that reverts does not", async () => {
  const client = open();
  await expect(call(client)).rejects.toThrow(/revert/);
  await expect(call(client)).rejects.toThrow(/revert/);
  expect(asked).toEqual(["eth_chainId", "eth_call", "eth_call"]);
  isUp = false;
  await expect(call(client)).rejects.toThrow();
  isUp = true;
  await client.connect();
  expect(asked.at(-1)).toBe("eth_chainId");
});

test("Credentials of the URL travel in a header", async () => {
  await open({ url: rpc.url.replace("http://", "http://user:p%40ss@") }).connect();
  expect(authorizations).toEqual([`Basic ${Buffer.from("user:p@ss").toString("base64")}`]);
});
