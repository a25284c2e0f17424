import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import pino from "pino";
import { onTestFinished } from "vitest";
import { EventHub } from "../../../src/core/events.ts";
import { CallbackKeys } from "../../../src/parts/callbacks/callback-keys.ts";
import { CallbackSender, type CallbackTargets } from "../../../src/parts/callbacks/callback-sender.ts";
import { CALLBACK_EVENTS } from "../../../src/parts/callbacks/store/events.ts";
import {
  CALLBACK_URL,
  type Callback,
  type CallbackLedger,
} from "../../../src/parts/callbacks/store/ledger.ts";
import { CALLBACKS } from "../../../src/parts/callbacks/store/module.ts";
import type { NameResolver } from "../../../src/parts/outbound/guarded-lookup.ts";
import type { Store } from "../../../src/store/store.ts";
import { emitEvents } from "../../../src/store-events.ts";
import { eventually } from "../../helpers/eventually.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { acceptId, claimCalls, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

/** A callback that arrived. */
export interface Called {
  readonly headers: IncomingHttpHeaders;
  readonly path: string;
  readonly body: string;
  readonly response: ServerResponse;
}

export interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly calls: Called[];
  stop(): Promise<void>;
}

/** Starts a server that callbacks go to, for one test. */
export async function startReceiver(
  answer: (called: Called) => void = ({ response }) => response.writeHead(204).end(),
): Promise<Receiver> {
  const calls: Called[] = [];
  const listener = await listenHttp({
    handler(request, response) {
      void buffer(request).then((body) => {
        const { headers, url: path = "" } = request;
        const called = { headers, path, body: body.toString(), response };
        calls.push(called);
        answer(called);
      });
    },
  });
  onTestFinished(() => listener.stop());
  return { url: `${listener.url}/hook`, port: listener.port, calls, stop: () => listener.stop() };
}

/** Rules under which this machine stands for the public internet. */
export const LOCAL_BUYERS = {
  ports: [443],
  allowedAddresses: [{ address: "127.0.0.1", prefixBits: 32, family: "ipv4" }],
} as const;

export interface Calling {
  readonly store: Store;
  readonly events: EventHub;
  readonly sender: CallbackSender;
  readonly keys: CallbackKeys;
  /** Makes a dead letter of a webhook. @returns its call ID */
  deadLetter(): Promise<number>;
  /** Sells a job with a `Callback-URL`, and finishes it. @returns its call ID */
  sell(callbackUrl: string): Promise<number>;
  /** Waits until the newest callback is as `check` wants it. */
  last(check: (callback: Callback) => boolean): Promise<Callback>;
}

/** Starts a sender on a real store, for one test. */
export async function startCalling(
  targets: {
    readonly endpoints?: readonly {
      url: string;
      events?: readonly string[];
      secrets?: readonly string[];
    }[];
    readonly buyers?: CallbackTargets["buyers"];
  },
  options: {
    readonly resolver?: NameResolver;
    readonly starts?: boolean;
    readonly timeoutMs?: number;
    /** Returns the ledger that the sender uses. */
    readonly withLedger?: (ledger: CallbackLedger) => CallbackLedger;
  } = {},
): Promise<Calling> {
  const events = new EventHub();
  const { store, stop } = await openTestStore({ onCommitted: emitEvents(events) });
  const keys = new CallbackKeys((candidate) => store.keepSecret("callbacks", candidate));
  await keys.use([]);
  const sender = new CallbackSender({
    ...{ keys, events, logger: pino({ level: "silent" }) },
    ledger: options.withLedger?.(store.of(CALLBACKS)) ?? store.of(CALLBACKS),
    store,
    callUrl: (callId) => `https://shop.example/x402/calls/${callId}`,
    ...(options.timeoutMs && { timeoutMs: options.timeoutMs }),
    ...(options.resolver && { resolver: options.resolver }),
  });
  const { endpoints = [], buyers } = targets;
  await sender.use({
    endpoints: endpoints.map(({ url, events = CALLBACK_EVENTS, secrets = [] }) => ({ url, events, secrets })),
    buyers,
  });
  if (options.starts ?? true) await sender.start();
  onTestFinished(async () => {
    await sender.stop();
    await stop();
  });
  let sold = 0;
  return {
    ...{ store, events, sender, keys },
    async deadLetter() {
      const callId = await acceptId(store);
      for (const call of await claimCalls(store)) await store.fail(call, "no ink");
      return callId;
    },
    async sell(callbackUrl) {
      sold += 1;
      const intent = paymentIntent(sold, {
        notes: { [CALLBACK_URL]: callbackUrl },
        validBefore: 4_000_000_000,
      });
      const begun = await store.beginPayment(intent, paidCall());
      if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
      await store.settlePayment(intent.key, "{}");
      for (const call of await claimCalls(store)) await store.ack(call, undefined);
      return begun.callId;
    },
    last: (check) =>
      eventually(async () => {
        const [newest] = await store.of(CALLBACKS).listCallbacks({ limit: 1 });
        if (newest === undefined || !check(newest)) throw new Error(`not yet: ${JSON.stringify(newest)}`);
        return newest;
      }),
  };
}
