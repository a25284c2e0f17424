import { expect, it } from "vitest";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import type { FacilitatorCall } from "../../helpers/facilitator.ts";
import type { Fault, ProxiedAnswer } from "../../helpers/fault.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
let proxy: FaultProxy;
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    async through(target) {
      proxy = await startFaultProxy({ target });
      return proxy;
    },
    start: ({ config }) => startEmbeddedJobgate({ config, periods: { confirmationTimeoutMs: 300 } }),
  }),
);

const isDeposit = ({ body }: { readonly body: Buffer }) => body.includes('"type":"deposit"');
const isDepositCall = ({ paymentPayload }: FacilitatorCall) => paymentPayload?.payload.type === "deposit";
const soldBodies = () => shop.runner.calls.map(({ body }) => Buffer.from(body).toString());

/** A success, whatever was done, with a balance that no chain has. */
const success = (transaction: string): Fault => ({
  kind: "answer",
  status: 200,
  body: {
    ...{ success: true, transaction, network: `eip155:${parts.anvil.chainId}`, amount: "999999999" },
    extra: { channelState: { balance: "999999999", totalClaimed: "0", chargedCumulativeAmount: "0" } },
  },
});

it.each(["no transaction", "the transaction of another deposit"])(
  "A facilitator that calls a deposit made, and names %s, sells nothing until the deposit is made",
  async (lie) => {
    const honest = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
    const { transaction = "" } = (await shop.buy(honest.fetch, `honest beside ${lie}`)).settlement ?? {};
    const { fetch } = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
    proxy.add({
      ...{ path: "/settle", when: isDeposit },
      fault: success(lie === "no transaction" ? "" : transaction),
    });
    const body = `bought with ${lie}`;
    expect((await shop.buy(fetch, body)).status).not.toBe(202);
    expect(soldBodies().filter((sold) => sold.includes(lie) && !sold.startsWith("honest"))).toEqual([]);
    proxy.clear();
    // The facilitator is asked again, and makes the deposit.
    await until(() => soldBodies().includes(body));
    const { payload } = shop.facilitator.calls.findLast(isDepositCall)?.paymentPayload ?? {};
    const { channelId } = (payload as { readonly voucher: { readonly channelId: string } }).voucher;
    await until(async () => (await readChannels(parts.anvil, "channels", channelId))[1] === PRICE);
    expect(soldBodies().filter((sold) => sold === body)).toHaveLength(1);
  },
);

it("Balances and amounts in a facilitator's answers let no payer buy more than the deposit", async () => {
  const change = (answer: ProxiedAnswer): ProxiedAnswer => {
    const { extra = {}, ...more } = JSON.parse(answer.body.toString()) as { readonly extra?: object };
    const state = { balance: "999999999", totalClaimed: "0" };
    const body = { ...more, amount: "999999999", extra: { ...extra, ...state, channelState: state } };
    return { ...answer, body: Buffer.from(JSON.stringify(body)) };
  };
  for (const path of ["/verify", "/settle"]) proxy.add({ path, fault: { kind: "change", change } });
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer });
  const before = await parts.usdc.balanceOf(payer.address);
  const bought = await shop.buy(fetch, "with a lie", KEPT);
  expect(bought.settlement).toMatchObject({ success: true, amount: String(DEPOSIT) });
  await until(async () => (await readChannels(parts.anvil, "channels", channelOf(bought)))[1] === PRICE);
  expect(await scheme.refund(shop.urlOf(KEPT))).toMatchObject({ amount: String(DEPOSIT - PRICE) });
  expect(await parts.usdc.balanceOf(payer.address)).toBe(before - PRICE);
  proxy.clear();
});
