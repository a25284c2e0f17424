import { json } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createChainClient } from "../../src/chain/chain-client.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";

/** An RPC that says which chain it is for, and reverts every call. */
let rpc: HttpListener;
let chainId = 1;
let isUp = true;
let asked: string[] = [];
let authorizations: (string | undefined)[] = [];

beforeAll(async () => {
  rpc = await listenHttp({
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
  });
});
afterAll(() => rpc?.stop());
beforeEach(() => {
  chainId = 1;
  isUp = true;
  asked = [];
  authorizations = [];
});

const TO = "0x0000000000000000000000000000000000000001";
const open = (options: { chainId?: number; url?: string } = {}) =>
  createChainClient({ rpcUrl: options.url ?? rpc.url, timeoutMs: 500, ...options });
const call = async (client: ReturnType<typeof open>) => (await client.connect()).call({ to: TO });

test("The chain is checked once, however many ask at once", async () => {
  const client = open({ chainId: 1 });
  await Promise.all(Array.from({ length: 10 }, () => client.connect()));
  await client.connect();
  expect(asked).toEqual(["eth_chainId"]);
});

test("An RPC for another chain than the one that is expected is refused, until it is for that one", async () => {
  const client = open({ chainId: 5 });
  await expect(client.connect()).rejects.toThrow("the RPC is for chain 1, expected chain 5");
  chainId = 5;
  await client.connect();
});

test("Where no chain is expected, the first one that is seen is", async () => {
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

test("A call that got no answer has the chain checked again; one that reverts does not", async () => {
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
