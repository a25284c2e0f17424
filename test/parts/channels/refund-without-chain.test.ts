import { expect, it } from "vitest";
import { channelClient } from "../../helpers/channels.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const rpc: FaultProxy = startBeforeAll(() => startFaultProxy({ target: parts.anvil.rpcUrl }));
const shop = startBeforeAll(() =>
  startChannelShop(parts, { edit: (config) => config.replace(parts.anvil.rpcUrl, rpc.url) }),
);

it("A request for a refund while the RPC fails is answered 503, and is paid once the RPC answers", async () => {
  const answers: { readonly status: number; readonly code: unknown }[] = [];
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer });
  expect(await shop.buy(fetch, "bought", KEPT)).toMatchObject({ status: 202 });
  const observed: typeof globalThis.fetch = async (...request) => {
    const answer = await globalThis.fetch(...request);
    const { code } = (await answer.clone().json()) as { readonly code?: unknown };
    answers.push({ status: answer.status, code });
    return answer;
  };
  const refund = () => scheme.refund(shop.urlOf(KEPT), { fetch: observed });

  rpc.add({ path: "/", fault: { kind: "answer", status: 503, body: {} } });
  await expect(refund()).rejects.toThrow();
  expect(answers.at(-1)).toEqual({ status: 503, code: "facilitator_unavailable" });

  rpc.clear();
  expect(await refund()).toMatchObject({ amount: String(DEPOSIT - PRICE) });
});
