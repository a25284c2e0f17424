import type { IncomingMessage, ServerResponse } from "node:http";
import { decodePaymentResponseHeader } from "@x402/core/http";
import { HTTPFacilitatorClient, x402HTTPResourceServer, x402ResourceServer } from "@x402/core/server";
import type { SettleResponse } from "@x402/core/types";
import {
  type BatchSettlementChannelManager,
  BatchSettlementEvmScheme,
} from "@x402/evm/batch-settlement/server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accounts, newAccount } from "./accounts.ts";
import { type Anvil, borrowAnvil } from "./anvil.ts";
import {
  type ChannelConfig,
  channelClient,
  finalizeWithdraw,
  initiateWithdraw,
  installChannels,
  readChannels,
} from "./channels.ts";
import { type Facilitator, startFacilitator } from "./facilitator.ts";
import { type HttpListener, listenHttp } from "./http-listener.ts";
import { deployUsdc, type Token } from "./usdc.ts";

const NETWORK = "eip155:84532";
const { payer, payTo } = accounts;
const authorizer = newAccount();

let anvil: Anvil;
let usdc: Token;
let facilitator: Facilitator;
let shop: HttpListener;
let manager: BatchSettlementChannelManager;

beforeAll(async () => {
  anvil = await borrowAnvil();
  usdc = await deployUsdc({ anvil });
  await installChannels(anvil);
  await usdc.mint(payer.address, 1_000_000_000n);
  facilitator = await startFacilitator({ anvil, settlesChannels: true });
  const client = new HTTPFacilitatorClient({ url: facilitator.url });
  const scheme = new BatchSettlementEvmScheme(payTo.address, { receiverAuthorizerSigner: authorizer });
  manager = scheme.createChannelManager(client, NETWORK);
  const price = { asset: usdc.address, amount: "1000", extra: { name: usdc.name, version: usdc.version } };
  const sold = {
    accepts: { scheme: "batch-settlement", payTo: payTo.address, price, network: NETWORK },
  } as const;
  const server = new x402HTTPResourceServer(new x402ResourceServer(client).register(NETWORK, scheme), {
    "GET /": sold,
  });
  await server.initialize();
  shop = await listenHttp({ handler: (request, response) => void sell(server, request, response) });
}, 60_000);

afterAll(async () => {
  await shop?.stop();
  await facilitator?.stop();
  await anvil?.stop();
});

test("The official client deposits, pays by vouchers and gets the rest back", async () => {
  const { scheme, fetch } = channelClient({ anvil, payer });
  const [deposit, second, third] = [await buy(fetch), await buy(fetch), await buy(fetch)];
  expect(deposit).toMatchObject({ amount: "10000", transaction: expect.stringMatching(/^0x/) });
  expect([second.transaction, third.transaction]).toEqual(["", ""]);
  const channelId = channelOf(third);
  expect(third.extra).toMatchObject({
    chargedAmount: "1000",
    channelState: { chargedCumulativeAmount: "3000" },
  });

  await manager.claim();
  expect(await readChannels(anvil, "channels", channelId)).toEqual([10_000n, 3_000n]);
  await manager.settle();
  expect(await usdc.balanceOf(payTo.address)).toBe(3_000n);
  expect(await readChannels(anvil, "receivers", payTo.address, usdc.address)).toEqual([3_000n, 3_000n]);

  const before = await usdc.balanceOf(payer.address);
  expect(await scheme.refund(`${shop.url}/`)).toMatchObject({ success: true, amount: "7000" });
  expect(await usdc.balanceOf(payer.address)).toBe(before + 7_000n);
  expect(await readChannels(anvil, "refundNonce", channelId)).toBe(1n);
});

test("A payer withdraws a deposit once the channel's delay has passed", async () => {
  const { fetch } = channelClient({ anvil, payer, voucherSigner: newAccount() });
  const paid = await buy(fetch);
  const config = facilitator.calls.at(-1)?.paymentPayload?.payload.channelConfig as ChannelConfig;
  await initiateWithdraw({ anvil, payer, config, amount: 10_000n });
  await expect(finalizeWithdraw({ anvil, payer, config })).rejects.toThrow("reverted");
  await anvil.client.increaseTime({ seconds: config.withdrawDelay });
  await finalizeWithdraw({ anvil, payer, config });
  expect(await readChannels(anvil, "channels", channelOf(paid))).toEqual([0n, 0n]);
});

/** Buys once. */
async function buy(fetch: typeof globalThis.fetch): Promise<SettleResponse> {
  const response = await fetch(`${shop.url}/`);
  expect(response.status).toBe(200);
  return decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
}

function channelOf({ extra }: SettleResponse): string {
  return (extra as { readonly channelState: { readonly channelId: string } }).channelState.channelId;
}

/** Sells through the official server. */
async function sell(
  server: x402HTTPResourceServer,
  { url = "/", method = "GET", headers }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const header = (name: string) => headers[name.toLowerCase()] as string | undefined;
  const adapter = {
    getHeader: header,
    getMethod: () => method,
    getPath: () => url,
    getUrl: () => `${shop.url}${url}`,
    getAcceptHeader: () => "",
    getUserAgent: () => "",
  };
  const paymentHeader = header("payment-signature");
  const context = { adapter, path: url, method, ...(paymentHeader !== undefined && { paymentHeader }) };
  const result = await server.processHTTPRequest(context);
  if (result.type === "payment-error") {
    const { status, headers: answered, body } = result.response;
    response.writeHead(status, answered).end(JSON.stringify(body));
    return;
  }
  if (result.type !== "payment-verified") throw new Error("the route is sold");
  const { paymentPayload, paymentRequirements, declaredExtensions } = result;
  const settled = await server.processSettlement(paymentPayload, paymentRequirements, declaredExtensions);
  response.writeHead(settled.success ? 200 : 402, settled.headers).end();
}
