import { type KeyPairSigner, signBytes } from "@solana/kit";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import {
  type CompleteSIWxInfo,
  createSIWxClientExtension,
  createSIWxPayload,
  encodeSIWxHeader,
  type SIWxPayload,
  wrapFetchWithSIWx,
} from "@x402/extensions/sign-in-with-x";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { expect, test } from "vitest";
import { toBase58 } from "../../src/parts/solana/portable/addresses.ts";
import { accounts } from "../helpers/accounts.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { SOLANA_NETWORK, solanaAccount } from "../helpers/solana-cluster.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";

const PUBLIC_URL = "http://127.0.0.1:8402";
/** Numbers of accounts: the one that pays, the one that a route lists, and another one. */
const [PAYER, LISTED, STRANGER] = [2, 5, 6];

const api = startBeforeAll(() =>
  listenHttp({ handler: (_request, response) => void response.end("weather") }),
);
const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(async () =>
  startSolanaShop(parts, {
    // In this process, the library of its calls to APIs would carry the official client's requests to the RPC.
    start: startJobgate,
    more: `
[[apis]]
name = "weather"
url = "${api.url}"
[[apis.access]]
sign_in = ["${(await solanaAccount(LISTED)).address}", "${accounts.stranger.address}"]
[[apis.access]]
paid_within_secs = 3_600
[[jobs]]
job_index = 2
route = "GET /weather/{city}"
api = "weather"
mode = "public_paid"
price = "$0.01"
charge = "before"
`,
  }),
);

/** Fetches from the gateway what clients find at its public URL. */
const fetchHere: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const { headers } = request;
  const response = await fetch(request.url.replace(PUBLIC_URL, shop.jobgate.x402Url), { headers });
  return new Response(await response.text(), response);
};

/** The account as the official client takes a signer: one that signs bytes. */
async function signerOf(number: number) {
  const { address, keyPair } = await solanaAccount(number);
  return {
    publicKey: address as string,
    signMessage: async (message: Uint8Array) =>
      Uint8Array.from(await signBytes(keyPair.privateKey, message as never)),
  };
}

async function signChallenge(path: string, account: number): Promise<SIWxPayload> {
  const { headers } = await fetchHere(PUBLIC_URL + path);
  const { extensions = {} } = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
  const { info, supportedChains } = extensions["sign-in-with-x"] as {
    readonly info: Omit<CompleteSIWxInfo, "chainId" | "type">;
    readonly supportedChains: readonly { readonly chainId: string; readonly type: "ed25519" }[];
  };
  expect(supportedChains).toEqual([{ chainId: SOLANA_NETWORK, type: "ed25519" }]);
  const chain = supportedChains[0] as (typeof supportedChains)[number];
  return createSIWxPayload({ ...info, ...chain }, await signerOf(account), info.uri);
}

interface Answer {
  readonly status: number;
  readonly code?: string;
  readonly calls?: readonly { readonly call_id: number; readonly payment: object }[];
}
async function send(path: string, payload: object): Promise<Answer> {
  const headers = { "sign-in-with-x": encodeSIWxHeader(payload as SIWxPayload) };
  const response = await fetchHere(PUBLIC_URL + path, { headers });
  const text = await response.text();
  return { status: response.status, ...(text.startsWith("{") && JSON.parse(text)) };
}
const CALLS = "/x402/calls";
const WEATHER = "/weather/paris";

test("A payer on Solana signs in with the official client, and lists the calls that it paid for", async () => {
  const { call_id, status } = await shop.send(await shop.sign());
  expect(status).toBe(202);
  const client = new x402Client();
  client.registerExtension(createSIWxClientExtension({ signers: [await signerOf(PAYER)] }));
  const response = await wrapFetchWithPayment(fetchHere, client)(PUBLIC_URL + CALLS);
  const { calls } = (await response.json()) as Answer;
  expect(response.status).toBe(200);
  expect(calls).toMatchObject([
    { call_id, payment: { network: SOLANA_NETWORK, asset: parts.mint, symbol: "USDC", amount: "10000" } },
  ]);
  const own = await send(`${CALLS}/${call_id}`, await signChallenge(CALLS, PAYER));
  expect(own.status).toBe(200);
  const others = await send(`${CALLS}/${call_id}`, await signChallenge(CALLS, STRANGER));
  expect(others).toMatchObject({ status: 404, code: "call_not_found" });
  expect((await send(CALLS, await signChallenge(CALLS, STRANGER))).calls).toEqual([]);
});

test("A challenge that is used, changed, or signed by another account's key is refused", async () => {
  const payload = await signChallenge(CALLS, PAYER);
  const stranger = (await solanaAccount(STRANGER)).address;
  const MISMATCH = { status: 403, code: "signature_mismatch" };
  const sign = async (change: (own: SIWxPayload) => object) => {
    const own = await signChallenge(CALLS, PAYER);
    return send(CALLS, { ...own, ...change(own) });
  };
  expect(await sign(() => ({ address: stranger }))).toMatchObject(MISMATCH);
  expect(await sign(() => ({ signature: payload.signature }))).toMatchObject(MISMATCH);
  expect(await sign(() => ({ statement: "Sign in for GET without a payment." }))).toMatchObject(MISMATCH);
  expect((await send(CALLS, payload)).status).toBe(200);
  expect(await send(CALLS, payload)).toMatchObject({ status: 409, code: "signature_replay" });
});

test("A sign-in of another form than its network's is refused as unreadable", async () => {
  const INVALID = { status: 400, code: "invalid_signature" };
  for (const change of [
    { type: "eip191" },
    { chainId: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" },
    { chainId: "eip155:8453" },
    { address: accounts.payer.address },
    { signature: `0x${"11".repeat(65)}` },
    { signature: "1".repeat(63) },
  ])
    expect(await send(CALLS, { ...(await signChallenge(CALLS, PAYER)), ...change })).toMatchObject(INVALID);
});

test.each([
  ["0 of the order 4", Buffer.alloc(32)],
  ["the neutral point", Buffer.from(`01${"00".repeat(31)}`, "hex")],
  ["the neutral point, spelled above the prime", Buffer.from(`ee${"ff".repeat(30)}7f`, "hex")],
  [
    "a point of the order 8",
    Buffer.from("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa", "hex"),
  ],
])("An account for which anybody can sign does not sign in: %s", async (_, account) => {
  const payload = await signChallenge(CALLS, PAYER);
  const neutral = new Uint8Array(64);
  neutral[0] = 1;
  const forged = { ...payload, address: toBase58(account), signature: toBase58(neutral) };
  expect(await send(CALLS, forged)).toMatchObject({ status: 400, code: "invalid_signature" });
});

test("A listed account on Solana has a route without a payment, and another one has the 402", async () => {
  const asListed = wrapFetchWithSIWx(fetchHere, await signerOf(LISTED));
  const response = await asListed(PUBLIC_URL + WEATHER);
  expect([response.status, await response.text()]).toEqual([200, "weather"]);
  expect((await wrapFetchWithSIWx(fetchHere, await signerOf(STRANGER))(PUBLIC_URL + WEATHER)).status).toBe(
    402,
  );
  const payload = await signChallenge(WEATHER, LISTED);
  expect(await send("/weather/rome", payload)).toMatchObject({ status: 403, code: "signature_mismatch" });
  const lowerCase = { ...payload, address: payload.address.toLowerCase() };
  expect((await send(WEATHER, lowerCase)).status).toBeGreaterThanOrEqual(400);
});

test("A payer on Solana has the route again that it paid for, and no other one", async () => {
  const url = `${shop.jobgate.x402Url}${WEATHER}`;
  const payer: KeyPairSigner = await solanaAccount(PAYER);
  const { ExactSvmScheme } = await import("@x402/svm/exact/client");
  const client = new x402Client().register(
    SOLANA_NETWORK as never,
    new ExactSvmScheme(payer, { rpcUrl: parts.cluster.rpcUrl }),
  );
  const landed = parts.cluster.landed.length;
  expect((await wrapFetchWithPayment(fetch, client)(url)).status).toBe(200);
  expect(parts.cluster.landed.length).toBe(landed + 1);
  expect((await send(WEATHER, await signChallenge(WEATHER, PAYER))).status).toBe(200);
  expect((await send(WEATHER, await signChallenge(WEATHER, STRANGER))).status).toBe(402);
  expect((await send("/weather/rome", await signChallenge("/weather/rome", PAYER))).status).toBe(402);
  expect(parts.cluster.landed.length).toBe(landed + 1);
});
