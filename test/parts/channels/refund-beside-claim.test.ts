import { expect, it } from "vitest";
import { channelClient } from "../../helpers/channels.ts";
import type { ProxiedRequest } from "../../helpers/fault.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

/** Requests to the RPC that a refund makes in the time of a few looks at its channel. */
const LOOKS = 20;

const parts = startBeforeAll(startChannelParts);
const rpc: FaultProxy = startBeforeAll(() => startFaultProxy({ target: parts.anvil.rpcUrl }));
let facilitator: FaultProxy;
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    edit: (config) => config.replace(parts.anvil.rpcUrl, rpc.url),
    async through(target) {
      facilitator = await startFaultProxy({ target });
      return facilitator;
    },
  }),
);

const payloadOf = ({ body }: ProxiedRequest) =>
  JSON.parse(body.toString()).paymentPayload.payload as {
    readonly type: string;
    readonly claims?: readonly object[];
  };

it("A refund waits for a claim that is under way, and pays what was asked for", async () => {
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer });
  const amount = String(DEPOSIT - PRICE);
  const refunds = () =>
    facilitator.requests
      .filter(({ path }) => path === "/settle")
      .map(payloadOf)
      .filter(({ type }) => type === "refund");
  const isClaim = (request: ProxiedRequest) => payloadOf(request).type === "claim";
  const asked = facilitator.during({ path: "/settle", when: isClaim }, async () => {
    const before = rpc.requests.length;
    const refund = scheme.refund(shop.urlOf(KEPT), { amount });
    await until(() => rpc.requests.length >= before + LOOKS);
    expect(refunds()).toEqual([]);
    return { refund };
  });
  expect(await shop.buy(fetch, "bought", KEPT)).toMatchObject({ status: 202 });
  const { refund } = await asked;
  expect(await refund).toMatchObject({ success: true, amount });
  expect(refunds()).toMatchObject([{ claims: [] }]);
});
