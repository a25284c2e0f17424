import { decodePaymentRequiredHeader } from "@x402/core/http";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import {
  type CompleteSIWxInfo,
  createSIWxClientExtension,
  createSIWxMessage,
  createSIWxPayload,
  encodeSIWxHeader,
  type SIWxPayload,
  wrapFetchWithSIWx,
} from "@x402/extensions/sign-in-with-x";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { Ajv2020 } from "ajv/dist/2020.js";
import { type Address, getAddress, type Hex, serializeErc6492Signature } from "viem";
import { beforeAll, describe, expect, it } from "vitest";
import type { PaymentKey } from "../../../src/core/payment.ts";
import { accounts } from "../../helpers/accounts.ts";
import { borrowAnvil } from "../../helpers/anvil.ts";
import { highS } from "../../helpers/caller-claim.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { ALLOWED_FACTORY, deployWallet } from "../../helpers/wallets.ts";
import { paidCall, paymentIntent } from "../../store/store-fixtures.ts";
import { PUBLIC_URL, startAnotherGateway, startTestGateway } from "../../x402/gateway-harness.ts";
import { USDC } from "../../x402/payments.ts";

/** A network without an RPC, and one with the RPC of another chain. */
const [SILENT, WRONG] = ["eip155:10", "eip155:8453"] as const;
const OWNER = accounts.stranger;
const { payer, otherPayer } = accounts;

let nowMs = Date.now();
const clock = () => nowMs;
const parts = startBeforeAll(async () => {
  const anvil = await borrowAnvil();
  const rpc = await startFaultProxy({ target: anvil.rpcUrl });
  return { anvil, rpc, network: `eip155:${anvil.chainId}` as const, stop: () => rpc.stop() };
});
/** Every request is from another client, unless the test says which. */
const LOOPBACK = { address: "127.0.0.1", prefixBits: 32, family: "ipv4" } as const;
const configOf = () => ({
  trustedProxies: [LOOPBACK],
  acceptedTokens: [
    { ...USDC, network: parts.network, rpcUrl: parts.rpc.url },
    { ...USDC, network: SILENT },
    { ...USDC, network: WRONG, rpcUrl: parts.rpc.url },
  ],
});
const gateway = startBeforeAll(() => startTestGateway({ config: configOf(), clock }));

let count = 0;
/** Stores a paid call of an account. */
async function pay(account: string, network: string = parts.network) {
  const { key, ...intent } = paymentIntent(++count);
  const paid: PaymentKey = { ...key, network, payer: account.toLowerCase() };
  const begun = await gateway.store.beginPayment({ ...intent, key: paid }, paidCall());
  if (begun.kind !== "begun") throw new Error(begun.kind);
  const settlement = { success: true, transaction: `0x${count}`, network, payer: account };
  return {
    callId: begun.callId,
    settle: () => gateway.store.settlePayment(paid, JSON.stringify(settlement)),
  };
}
async function paid(account: string, network?: string): Promise<number> {
  const { callId, settle } = await pay(account, network);
  await settle();
  return callId;
}

interface Answer {
  readonly status: number;
  readonly code?: string;
  readonly calls?: readonly (Record<string, unknown> & {
    readonly call_id: number;
    readonly access_token: string;
  })[];
  readonly next?: string;
}
let clients = 0;
const newClient = () => `2001:db8::${(++clients).toString(16)}`;
async function ask(
  header?: string,
  path = "/x402/calls",
  { url = gateway.url, client = newClient() } = {},
): Promise<Answer> {
  const headers = { "x-forwarded-for": client, ...(header !== undefined && { "sign-in-with-x": header }) };
  const response = await fetch(`${url}${path}`, { headers });
  return { status: response.status, ...((await response.json()) as object) };
}
const idsOf = ({ calls }: Answer) => calls?.map(({ call_id }) => call_id);

/** Asks for a challenge, and returns what the official client signs: the account on one network. */
async function challenge(url = gateway.url, network: string = parts.network) {
  const response = await fetch(`${url}/x402/calls`);
  expect(response.status).toBe(402);
  const required = decodePaymentRequiredHeader(response.headers.get("payment-required") ?? "");
  const { "sign-in-with-x": extension } = required.extensions ?? {};
  const { info, supportedChains } = extension as SignInExtension;
  const chain = supportedChains.find(({ chainId }) => chainId === network);
  if (chain === undefined) throw new Error(`no sign-in on ${network}`);
  return { ...info, ...chain };
}
interface SignInExtension {
  readonly info: Omit<CompleteSIWxInfo, "chainId" | "type">;
  readonly supportedChains: readonly { readonly chainId: string; readonly type: "eip191" }[];
}
type Signer = { readonly address: Address; signMessage(args: { message: string }): Promise<Hex> };
const walletOf = (address: Address, owner = OWNER, form = (signature: Hex) => signature): Signer => ({
  address,
  signMessage: async (args) => form(await owner.signMessage(args)),
});

async function payload(
  signer: Signer,
  {
    network,
    edit,
    url,
  }: { network?: string; url?: string; edit?: (signed: Record<string, unknown>) => object } = {},
): Promise<SIWxPayload> {
  const info = await challenge(url, network);
  const changed = { ...info, ...edit?.({ ...info }) } as typeof info;
  // The client refuses to sign for another host than that of the request, which an attacker's page would name.
  return createSIWxPayload(changed, signer, changed.uri);
}
const signed = async (...args: Parameters<typeof payload>) => encodeSIWxHeader(await payload(...args));

/** The official client, which can pay on every EVM chain. */
function payingClient(signers: Signer[] = []): x402Client {
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(accounts.payer));
  client.registerExtension(createSIWxClientExtension({ signers }));
  return client;
}

/** Sends requests to the gateway as its public URL, which clients see in its challenges. */
function atPublicUrl() {
  const statuses: number[] = [];
  const send: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const response = await fetch(request.url.replace(PUBLIC_URL, gateway.url), { headers: request.headers });
    statuses.push(response.status);
    return new Response(await response.text(), response);
  };
  return { statuses, fetch: send };
}

describe("A payer who signs in", () => {
  it("Is asked to with a challenge for this host, and offered nothing that an official client could pay", async () => {
    const { code, ...answer } = await ask();
    expect([answer.status, code]).toEqual([402, "sign_in_required"]);
    const paying = wrapFetchWithPayment(atPublicUrl().fetch, payingClient());
    await expect(paying(`${PUBLIC_URL}/x402/calls`)).rejects.toThrow("No network/scheme registered");
  });

  it.each([
    ["that pays", (send: typeof fetch) => wrapFetchWithPayment(send, payingClient([payer]))],
    ["that signs in only", (send: typeof fetch) => wrapFetchWithSIWx(send, payer)],
  ])("Is signed in by the official client %s", async (_, wrap) => {
    const callId = await paid(payer.address);
    const { statuses, fetch: send } = atPublicUrl();
    const response = await wrap(send)(`${PUBLIC_URL}/x402/calls`);
    expect(statuses).toEqual([402, 200]);
    expect(idsOf((await response.json()) as Answer)).toContain(callId);
  });

  it("Sees only the payer's own calls on the network, newest first, with everything that reads them", async () => {
    const account = { ...otherPayer };
    const [first, second] = [await paid(account.address), await paid(account.address)];
    const elsewhere = await paid(account.address, SILENT);
    await paid(payer.address);
    await pay(account.address);
    const answer = await ask(await signed(account));
    expect(idsOf(answer)).toEqual([second, first]);
    const call = answer.calls?.[0];
    expect(call).toMatchObject({
      call_id: second,
      state: "queued",
      job_index: 7,
      payment: {
        network: parts.network,
        symbol: "USDC",
        amount: "3264000",
        transaction: expect.stringMatching(/^0x/),
      },
      links: { self: `/x402/calls/${second}`, result: `/x402/calls/${second}/result` },
    });
    const headers = { authorization: `Bearer ${call?.access_token}` };
    expect((await fetch(`${gateway.url}/x402/calls/${second}`, { headers })).status).toBe(200);
    expect(idsOf(await ask(await signed(account, { network: SILENT })))).toEqual([elsewhere]);
  });

  it("Gets answers that openapi.json describes", async () => {
    const account = accounts.stranger;
    await paid(account.address);
    const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
      paths: Record<string, { get: { responses: Record<string, unknown> } }>;
    };
    const ajv = new Ajv2020({ strict: false, formats: { "date-time": true } });
    ajv.addSchema(document, "openapi");
    const { responses } = document.paths["/x402/calls"]?.get ?? { responses: {} };
    const used = await signed(account);
    for (const [header, code, status] of [
      [undefined, "sign_in_required", 402],
      [used, undefined, 200],
      [used, "signature_replay", 409],
      ["none", "invalid_signature", 400],
      [await signed(account, { edit: () => ({ nonce: "1".repeat(64) }) }), "signature_mismatch", 403],
    ] as const) {
      const answer = await ask(header);
      expect(answer).toMatchObject(code === undefined ? { status } : { status, code });
      const described = responses[status] as { $ref?: string };
      const response = described.$ref ?? `#/paths/~1x402~1calls/get/responses/${status}`;
      const schema = `openapi${response}/content/application~1json/schema`;
      const isDescribed = ajv.compile({ $ref: schema });
      expect({ status, fits: isDescribed(answer), errors: isDescribed.errors }).toMatchObject({ fits: true });
      if (status === 200) expect(isDescribed({ calls: [{ call_id: 0 }] })).toBe(false);
    }
  });

  it("Reads one call and its result without the access token, and not another payer's call", async () => {
    const [own, others, elsewhere] = [
      await paid(payer.address),
      await paid(otherPayer.address),
      await paid(payer.address, SILENT),
    ];
    expect(await ask(await signed(payer), `/x402/calls/${own}`)).toMatchObject({
      status: 200,
      state: "queued",
    });
    expect(await ask(await signed(payer), `/x402/calls/${own}/result`)).toMatchObject({
      code: "result_not_ready",
    });
    for (const call of [others, elsewhere, 999_999]) {
      for (const tail of ["", "/result", "/events"]) {
        const answer = await ask(await signed(payer), `/x402/calls/${call}${tail}`);
        expect(answer).toMatchObject({ status: 404, code: "call_not_found" });
      }
    }
  });

  it("Pages through many calls, each page with a sign-in of its own", async () => {
    const account = accounts.caller;
    const ids: number[] = [];
    for (let i = 0; i < 51; i++) ids.push(await paid(account.address));
    const first = await ask(await signed(account));
    expect(idsOf(first)).toEqual(ids.slice(1).reverse());
    const used = await signed(account);
    const rest = await ask(used, first.next);
    expect([idsOf(rest), rest.next]).toEqual([[ids[0]], undefined]);
    expect(await ask(used, first.next)).toMatchObject({ code: "signature_replay" });
    expect(await ask(await signed(account), "/x402/calls?before=x")).toMatchObject({ code: "bad_request" });
  });
});

describe("A sign-in message", () => {
  it("Is used once, over routes, replicas and 20 requests at once", async () => {
    await paid(payer.address);
    const replica = await startAnotherGateway({ config: configOf(), clock, store: gateway.store });
    const header = await signed(payer, { url: replica.url });
    const urls = [gateway.url, replica.url];
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => ask(header, "/x402/calls", { url: urls[i % 2] as string })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ code }) => code === "signature_replay")).toHaveLength(19);
    expect(await ask(header, "/x402/calls/1")).toMatchObject({ status: 409 });
  });

  it("Is refused when it is for another domain, changed, expired or from the future", async () => {
    const hosts = [
      { domain: "evil.example", uri: "https://evil.example/x402/calls" },
      {
        domain: "operator.example.com.evil.example",
        uri: "https://operator.example.com.evil.example/x402/calls",
      },
      { domain: "operator.example.com", uri: "https://operator.example.com/x402/jobs/1/0" },
    ];
    const forged = [
      ...hosts,
      { nonce: "0".repeat(64) },
      { statement: "Something else" },
      { expirationTime: new Date(nowMs + 9e9).toISOString() },
      { issuedAt: new Date(nowMs + 60_000).toISOString() },
    ];
    for (const change of forged) {
      const header = await signed(payer, { edit: () => change });
      expect([change, await ask(header)]).toEqual([
        change,
        expect.objectContaining({ code: "signature_mismatch" }),
      ]);
    }
    const header = await signed(payer);
    const start = nowMs;
    try {
      nowMs = start + 5 * 60_000;
      expect(await ask(header)).toMatchObject({ status: 403, code: "signature_expired" });
      nowMs = start - 61_000;
      expect(await ask(header)).toMatchObject({ status: 403, code: "signature_mismatch" });
    } finally {
      nowMs = start;
    }
    expect((await ask(header)).status).toBe(200);
  });

  it("Is refused with additions, garbage, or another account's signature or a signature for another network", async () => {
    const { signature, ...message } = await payload(payer);
    const garbage: (object | string)[] = [
      "no base64!",
      btoa("no json"),
      btoa("null"),
      {},
      { ...message, signature: 7 },
      { ...message, signature: "0x" },
      { ...message, signature, type: "ed25519" },
      { ...message, signature, chainId: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" },
      { ...message, signature, address: "0x12" },
    ];
    for (const sent of garbage) {
      const header = typeof sent === "string" ? sent : encodeSIWxHeader(sent as SIWxPayload);
      expect(await ask(header)).toMatchObject({ status: 400, code: "invalid_signature" });
    }
    const wrong = async (change: (own: SIWxPayload) => object) => {
      const own = await payload(payer);
      return ask(encodeSIWxHeader({ ...own, ...change(own) } as SIWxPayload));
    };
    const MISMATCH = { status: 403, code: "signature_mismatch" };
    expect(await wrong(() => ({ address: otherPayer.address }))).toMatchObject(MISMATCH);
    expect(await wrong(() => ({ address: payer.address.toLowerCase() }))).toMatchObject(MISMATCH);
    expect(await wrong(() => ({ chainId: SILENT }))).toMatchObject(MISMATCH);
    expect(await wrong(() => ({ version: "2" }))).toMatchObject(MISMATCH);
    expect(
      await ask(encodeSIWxHeader({ ...message, signature: highS(signature as Hex) } as SIWxPayload)),
    ).toMatchObject(MISMATCH);
    const text = createSIWxMessage(
      { ...(await challenge()), notBefore: new Date(0).toISOString() },
      payer.address,
    );
    const added = await payer.signMessage({ message: text });
    expect(await wrong(() => ({ signature: added, notBefore: new Date(0).toISOString() }))).toMatchObject(
      MISMATCH,
    );
  });
});

describe("A payer whose account is a contract", () => {
  let wallet: Address;
  beforeAll(async () => {
    wallet = getAddress(
      await deployWallet({ anvil: parts.anvil, name: "OwnedWallet", argument: OWNER.address }),
    );
  });
  const asked = () => parts.rpc.requests.filter(({ body }) => body.includes("0x1626ba7e")).length;

  it("Signs in by the account's contract (ERC-1271), also with what deploys it (ERC-6492)", async () => {
    const callId = await paid(wallet);
    const deploying = (signature: Hex) =>
      serializeErc6492Signature({ address: ALLOWED_FACTORY, data: "0x1234", signature });
    for (const signer of [walletOf(wallet), walletOf(wallet, OWNER, deploying)]) {
      expect(idsOf(await ask(await signed(signer)))).toEqual([callId]);
      expect(await ask(await signed(signer), `/x402/calls/${callId}`)).toMatchObject({ status: 200 });
    }
    const header = await signed(walletOf(wallet));
    expect((await ask(header)).status).toBe(200);
    expect(await ask(header)).toMatchObject({ status: 409, code: "signature_replay" });
  });

  it("Is not opened by another account's signature, or by a signature for a network on which its contract was not called", async () => {
    const callId = await paid(wallet, SILENT);
    const MISMATCH = { status: 403, code: "signature_mismatch" };
    expect(await ask(await signed(walletOf(wallet, payer)))).toMatchObject(MISMATCH);
    expect(await ask(await signed(walletOf(payer.address)))).toMatchObject(MISMATCH);
    expect(await ask(await signed(walletOf(wallet), { network: SILENT }))).toMatchObject(MISMATCH);
    // It approves on its own network, which opens nothing that was paid on another.
    expect(await ask(await signed(walletOf(wallet)), `/x402/calls/${callId}`)).toMatchObject({ status: 404 });
    expect(idsOf(await ask(await signed(walletOf(wallet))))).not.toContain(callId);
  });

  it("Is not signed in by an RPC of another chain, or an RPC that does not answer, or by a hostile contract", async () => {
    const SILENCE = { status: 503, code: "permission_check_failed" };
    expect(await ask(await signed(walletOf(wallet), { network: WRONG }))).toMatchObject(SILENCE);
    const header = await signed(walletOf(wallet));
    const hostile = await deployWallet({ anvil: parts.anvil, name: "HostileWallet", argument: false });
    expect(await ask(await signed(walletOf(getAddress(hostile))))).toMatchObject({ status: 403 });
    parts.rpc.add({ fault: { kind: "cut" } });
    try {
      expect(await ask(header)).toMatchObject(SILENCE);
    } finally {
      parts.rpc.clear();
    }
    expect(await ask(header)).toMatchObject({ code: "signature_replay" });
  });

  it("Makes the RPC answer one question a challenge, and a client few", async () => {
    const stranger = walletOf(wallet, payer);
    const before = asked();
    const header = await signed(stranger);
    for (let i = 0; i < 3; i++) expect((await ask(header)).status).toBeGreaterThan(400);
    expect(asked() - before).toBe(1);
    const client = newClient();
    const headers = await Promise.all(Array.from({ length: 30 }, () => signed(stranger)));
    const answers = await Promise.all(headers.map((header) => ask(header, "/x402/calls", { client })));
    expect(answers.filter(({ code }) => code === "rate_limited")).toHaveLength(10);
    expect(asked() - before).toBe(21);
    // A plain account behind the same address is never held up.
    expect((await ask(await signed(payer), "/x402/calls", { client })).status).toBe(200);
  });
});
