// Calls buyers back whose names a name server on this machine knows, once each, and prints what came of it.
import { Resolver } from "node:dns/promises";
import pino from "pino";
import { EventHub } from "../../../src/core/events.ts";
import { CallbackKeys } from "../../../src/parts/callbacks/callback-keys.ts";
import { CallbackSender } from "../../../src/parts/callbacks/callback-sender.ts";
import { CALLBACK_URL } from "../../../src/parts/callbacks/store/ledger.ts";
import { CALLBACKS } from "../../../src/parts/callbacks/store/module.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { until } from "../../helpers/until.ts";
import { claimCalls, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const [nameServer = "", port = "", ...hosts] = process.argv.slice(2);
const resolver = new Resolver();
resolver.setServers([nameServer]);

const { store, stop } = await openTestStore();
const keys = new CallbackKeys((candidate) => store.keepSecret("callbacks", candidate));
await keys.use([]);
const sender = new CallbackSender({
  ...{ ledger: store.of(CALLBACKS), store, keys, resolver, callUrl: undefined },
  events: new EventHub(),
  logger: pino({ level: "silent" }),
});
const loopback = { address: "127.0.0.1", prefixBits: 32, family: "ipv4" } as const;
await sender.use({ endpoints: [], buyers: { ports: [Number(port)], allowedAddresses: [loopback] } });
for (const [i, host] of hosts.entries()) {
  const callbackUrl = `https://${host}:${port}/hook`;
  const intent = paymentIntent(i, { notes: { [CALLBACK_URL]: callbackUrl }, validBefore: 4_000_000_000 });
  await store.beginPayment(intent, paidCall());
  await store.settlePayment(intent.key, "{}");
}
for (const call of await claimCalls(store, { limit: hosts.length })) await store.ack(call, undefined);
await sender.start();
const tried = async () => {
  const callbacks = await store.of(CALLBACKS).listCallbacks({ limit: hosts.length + 1 });
  return callbacks.every(({ attempts }) => attempts > 0) ? callbacks : undefined;
};
const found = await until(tried);
const outcomes = found.map(({ url, state, reason }) => [new URL(url).hostname, reason ?? state]);
await sender.stop();
await stop();
console.log(JSON.stringify(Object.fromEntries(outcomes)));
