import { x402Client, x402HTTPClient } from "@x402/core/client";
import type { PaymentRequired } from "@x402/core/types";
import { expect, it } from "vitest";
import { channelClient } from "../../helpers/channels.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { sendRpc } from "../../helpers/mcp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTangle } from "../../helpers/tangle.ts";
import {
  DEPOSIT,
  KEPT,
  newPayer,
  PRICE,
  readBought,
  startChannelParts,
  startChannelShop,
} from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const tangle = startBeforeAll(startTangle);
/** An API whose answer has two pieces, the second once the first was read. */
const api = startBeforeAll(async () => {
  let goOn = () => {};
  const listener = await listenHttp({
    handler(_request, response) {
      response.write("one ");
      goOn = () => void response.end("two");
    },
  });
  return { ...listener, goOn: () => goOn() };
});
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    jobs: `
[mcp]
enabled = true
[[apis]]
name = "ticks"
url = "${api.url}"
[[jobs]]
service_id = 0
job_index = 2
mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "${tangle.anvil.rpcUrl}"
chain_contract = "${tangle.contract}"
price = "$0.001"
[[jobs]]
job_index = 3
mode = "public_paid"
price = { per = "json:/n", each = "$0.001", min = "$0.001", max = "$0.01" }
[[jobs]]
job_index = 4
mode = "public_paid"
price = "$0.001"
route = "GET /ticks"
api = "ticks"
charge = "before"
stream = true
`,
  }),
);

/** Returns the official client of a new channel, and the payer. */
async function newBuyer(options: { readonly readsChain?: boolean } = {}) {
  const payer = await newPayer(parts);
  return { payer, ...channelClient({ anvil: parts.anvil, payer, ...options }) };
}

/** Has the rest of a deposit of ten prices paid back, once no call is open. */
const expectCharged = (
  { scheme }: Pick<Awaited<ReturnType<typeof newBuyer>>, "scheme">,
  charged: bigint,
  deposit = DEPOSIT,
) =>
  expect
    .poll(() => scheme.refund(shop.urlOf(KEPT)), { timeout: 10_000 })
    .toMatchObject({ success: true, amount: String(deposit - charged) });

it("A restricted job is sold from the channel of a permitted payer alone", async () => {
  const buyer = await newBuyer();
  const url = `${shop.jobgate.x402Url}/x402/jobs/0/2`;
  const buy = async () => readBought(await buyer.fetch(url, { method: "POST", body: "for callers" }));
  expect(await buy()).toMatchObject({ status: 403 });
  await tangle.permit(buyer.payer.address);
  expect(await buy()).toMatchObject({ status: 202 });
  expect(await buy()).toMatchObject({ status: 202, settlement: { transaction: "" } });
  await tangle.revoke(buyer.payer.address);
  expect(await buy()).toMatchObject({ status: 403 });
  await shop.runner.waitFor(2);
  expect(shop.runner.calls.at(-1)?.metadata).toMatchObject({
    "X-CHAIN-CALLER": buyer.payer.address.toLowerCase(),
  });
  await expectCharged(buyer, 2n * PRICE);
});

it("A job whose price depends on the request is charged what each request costs", async () => {
  const buyer = await newBuyer();
  for (const n of [2, 5]) {
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ n });
    const answer = await buyer.fetch(shop.urlOf(3), { method: "POST", headers, body });
    expect(await readBought(answer)).toMatchObject({ status: 202 });
  }
  await expectCharged(buyer, 7n * PRICE, 2n * DEPOSIT);
});

it("A stream is charged before its first byte, and its pieces come as they are sent", async () => {
  const buyer = await newBuyer();
  for (const _ of ["deposit", "voucher"]) {
    const answer = await buyer.fetch(`${shop.jobgate.x402Url}/ticks`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("payment-response")).not.toBeNull();
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toBe("one ");
    api.goOn();
    expect((await reader?.read())?.value).toBe("two");
  }
  await expectCharged(buyer, 2n * PRICE);
});

it("A tool is bought over MCP by vouchers of the channel that buys jobs over HTTP", async () => {
  const buyer = await newBuyer();
  const client = new x402Client().setSpendControls(false).register("eip155:*", buyer.scheme);
  expect(await shop.buy(buyer.fetch, "over HTTP", KEPT)).toMatchObject({ status: 202 });
  for (const body of ["first", "second"]) {
    const call = { name: `job-1-${KEPT}`, arguments: { body }, task: {} };
    const mcp = `${shop.jobgate.x402Url}/mcp`;
    const { result: asked } = await sendRpc(mcp, "tools/call", {
      name: call.name,
      arguments: call.arguments,
    });
    const payment = await client.createPaymentPayload(asked?.structuredContent as unknown as PaymentRequired);
    const { result } = await sendRpc(mcp, "tools/call", { ...call, _meta: { "x402/payment": payment } });
    const settlement = result?._meta?.["x402/payment-response"];
    expect(settlement).toMatchObject({ success: true, transaction: "" });
    const header = Buffer.from(JSON.stringify(settlement)).toString("base64");
    await new x402HTTPClient(client).processPaymentResult(payment, () => header, 200);
  }
  await expectCharged(buyer, 3n * PRICE);
});

it("A client that was paid back, and cannot read the chain, gets the sums of its channel with the next offer", async () => {
  const buyer = await newBuyer({ readsChain: false });
  expect(await shop.buy(buyer.fetch, "before", KEPT)).toMatchObject({ status: 202 });
  await expectCharged(buyer, PRICE);
  const refused = await shop.buy(buyer.fetch, "after", KEPT);
  expect(refused).toMatchObject({ status: 402, code: "payment_mismatch" });
  const [{ extra } = {}] = refused.accepts.filter(({ scheme }) => scheme === "batch-settlement");
  expect(extra).toMatchObject({
    channelState: { chargedCumulativeAmount: String(PRICE), balance: String(PRICE) },
  });
});
