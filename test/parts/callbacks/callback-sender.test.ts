import { createPublicKey, verify } from "node:crypto";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { expect, onTestFinished, test, vi } from "vitest";
import type { CallbackTargets } from "../../../src/parts/callbacks/callback-sender.ts";
import { CALLBACKS } from "../../../src/parts/callbacks/store/module.ts";
import { eventually } from "../../helpers/eventually.ts";
import { until } from "../../helpers/until.ts";
import { paidCall, paymentIntent } from "../../store/store-fixtures.ts";
import { type Called, LOCAL_BUYERS, startCalling, startReceiver } from "./callback-harness.ts";

const SECRET = `whsec_${Buffer.from("a key of twenty-four bytes").toString("base64")}`;
const OTHER = `whsec_${Buffer.from("another key of many bytes").toString("base64")}`;

test("With a secret, standardwebhooks and svix verify a callback, with the old key and the new one", async () => {
  const receiver = await startReceiver();
  const endpoints = [{ url: receiver.url, events: ["dead_letter"] as const, secrets: [SECRET, OTHER] }];
  const calling = await startCalling({ endpoints });
  const callId = await calling.deadLetter();
  await calling.last(({ state }) => state === "sent");
  const [called] = receiver.calls as [Called];
  const expected = { type: "dead_letter", data: { call_id: callId, origin: "webhook", reason: "no ink" } };
  const headers = called.headers as Record<string, string>;
  for (const secret of [SECRET, OTHER]) {
    expect(new StandardWebhook(secret).verify(called.body, headers)).toMatchObject(expected);
    expect(new SvixWebhook(secret).verify(called.body, headers)).toMatchObject(expected);
  }
  expect(() => new StandardWebhook(SECRET).verify(`${called.body} `, headers)).toThrow(
    "No matching signature",
  );
  expect(called.headers).toMatchObject({ "content-type": "application/json" });
  expect(called.headers["user-agent"]).toMatch(/^jobgate\//);
  expect(calling.sender.tries.counter.read(undefined, 0)).toEqual([
    [1, { event: "dead_letter", outcome: "sent" }],
  ]);
});

test("A buyer verifies a callback with the published key, and learns the state and where the result is", async () => {
  const receiver = await startReceiver();
  const calling = await startCalling({ buyers: LOCAL_BUYERS });
  const callId = await calling.sell(`${receiver.url}?mine=1`);
  await calling.last(({ state }) => state === "sent");
  const [{ headers, body, path }] = receiver.calls as [Called];
  expect(path).toBe("/hook?mine=1");
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature } = headers;
  const [version, base64 = ""] = String(signature).split(",");
  expect(version).toBe("v1a");
  const { keys } = JSON.parse(calling.keys.published) as { keys: [{ kty: string; crv: string; x: string }] };
  const key = createPublicKey({ key: keys[0], format: "jwk" });
  const signed = Buffer.from(`${String(id)}.${String(time)}.${body}`);
  expect(verify(null, signed, key, Buffer.from(base64, "base64"))).toBe(true);
  expect(Math.abs(Number(time) - Date.now() / 1000)).toBeLessThan(300);
  const message = JSON.parse(body) as { timestamp: string; data: object };
  expect(Number.isNaN(Date.parse(message.timestamp))).toBe(false);
  // Nothing of the result, the payer or the reason: who reads it shows the access token.
  expect({ ...message, timestamp: "" }).toEqual({
    type: "call.finished",
    timestamp: "",
    data: {
      call_id: callId,
      origin: "x402",
      service_id: 1,
      job_id: 7,
      status: "succeeded",
      call_url: `https://shop.example/x402/calls/${callId}`,
    },
  });
});

test("A callback that fails is sent again with the same ID and body, and not before its time", async () => {
  const receiver = await startReceiver(({ response }) =>
    response.writeHead(503, { "retry-after": "3600" }).end("no"),
  );
  const calling = await startCalling({ endpoints: [{ url: receiver.url, events: ["dead_letter"] }] });
  await calling.deadLetter();
  const failed = await calling.last(({ attempts }) => attempts === 1);
  expect(failed).toMatchObject({ state: "pending", reason: "HTTP 503" });
  expect(failed.dueAt - Date.now()).toBeGreaterThan(3_000_000);
  await calling.store.of(CALLBACKS).retryCallback(failed.id);
  await calling.last(({ attempts }) => attempts === 2);
  expect(receiver.calls).toHaveLength(2);
  const [first, second] = receiver.calls as [Called, Called];
  expect(second.headers["webhook-id"]).toBe(first.headers["webhook-id"]);
  expect(second.body).toBe(first.body);
  expect(calling.sender.tries.counter.read(undefined, 0)).toEqual([
    [2, { event: "dead_letter", outcome: "failed" }],
  ]);
});

test("410 ends a callback", async () => {
  const receiver = await startReceiver(({ response }) => response.writeHead(410).end());
  const calling = await startCalling({ endpoints: [{ url: receiver.url, events: ["dead_letter"] }] });
  await calling.deadLetter();
  expect(await calling.last(({ state }) => state !== "pending")).toMatchObject({
    state: "dead",
    reason: "HTTP 410",
  });
});

test.each([301, 302, 303, 307, 308])("A redirect with %i is not followed", async (status) => {
  const inside = await startReceiver();
  const receiver = await startReceiver(({ response }) =>
    response.writeHead(status, { location: inside.url }).end(),
  );
  const calling = await startCalling({ buyers: LOCAL_BUYERS });
  await calling.sell(receiver.url);
  const failed = await calling.last(({ attempts }) => attempts === 1);
  expect(failed).toMatchObject({ state: "pending", reason: `HTTP ${status}` });
  expect(inside.calls).toEqual([]);
});

test("An endless answer is cut, and its status is used", async () => {
  let closed = (): void => undefined;
  const isClosed = new Promise<void>((resolve) => {
    closed = resolve;
  });
  const receiver = await startReceiver(({ response }) => {
    response.writeHead(200).once("close", closed);
    const write = () => {
      while (!response.destroyed && response.write(Buffer.alloc(16_384)));
    };
    response.on("drain", write);
    write();
  });
  const calling = await startCalling({ buyers: LOCAL_BUYERS });
  await calling.sell(receiver.url);
  await calling.last(({ state }) => state === "sent");
  await isClosed;
});

test("A slow answer holds up no other callback, and ends", async () => {
  const slow = await startReceiver(({ response }) => {
    response.writeHead(200).write("a");
    const timer = setInterval(() => response.write("a"), 100);
    response.once("close", () => clearInterval(timer));
  });
  const quick = await startReceiver();
  const endpoints = [slow, quick].map(({ url }) => ({ url, events: ["dead_letter"] as const }));
  const calling = await startCalling({ endpoints }, { timeoutMs: 1_500 });
  await calling.deadLetter();
  await eventually(() => expect(quick.calls).toHaveLength(1));
  const held = async () =>
    (await calling.store.of(CALLBACKS).listCallbacks({ limit: 9 })).find(({ url }) => url === slow.url);
  await eventually(async () =>
    expect(await held()).toMatchObject({ attempts: 1, reason: "no whole answer within 1.5 s" }),
  );
});

test("One host gets one request at a time", async () => {
  let open = 0;
  let most = 0;
  const answers: (() => void)[] = [];
  const receiver = await startReceiver(({ response }) => {
    open += 1;
    most = Math.max(most, open);
    answers.push(() => {
      open -= 1;
      response.writeHead(204).end();
    });
  });
  const calling = await startCalling({ endpoints: [{ url: receiver.url, events: ["dead_letter"] }] });
  for (let n = 0; n < 4; n++) await calling.deadLetter();
  for (let n = 0; n < 4; n++) {
    await eventually(() => expect(answers).toHaveLength(n + 1));
    calling.sender.poke();
    answers[n]?.();
  }
  await calling.last(({ state }) => state === "sent");
  expect(most).toBe(1);
});

/** Answers with the addresses, one list for each question. */
function resolverOf(...answers: readonly string[][]) {
  const asked: string[] = [];
  return {
    asked,
    resolve4: async (name: string) => {
      const addresses = answers[Math.min(asked.length, answers.length - 1)];
      asked.push(name);
      return addresses ?? [];
    },
    resolve6: async () => Promise.reject(new Error("ENODATA")),
  };
}
type Resolver = NonNullable<NonNullable<Parameters<typeof startCalling>[1]>["resolver"]>;

test("A callback that is recorded as sent while due ones are read is not sent again", async () => {
  let goOn: (() => void) | undefined;
  const receiver = await startReceiver(({ response }) => {
    if (receiver.calls.length > 1) response.writeHead(204).end();
  });
  let isHolding = false;
  const calling = await startCalling(
    { endpoints: [{ url: receiver.url, events: ["dead_letter"] }] },
    {
      withLedger: (ledger) => ({
        ...ledger,
        async listDueCallbacks(page) {
          const due = await ledger.listDueCallbacks(page);
          if (isHolding && due.length > 0)
            await new Promise<void>((resolve) => {
              goOn = resolve;
            });
          return due;
        },
      }),
    },
  );
  await calling.deadLetter();
  const [first] = await eventually(() => expect(receiver.calls).toHaveLength(1)).then(() => receiver.calls);
  isHolding = true;
  calling.sender.poke();
  await eventually(() => expect(goOn).toBeDefined());
  isHolding = false;
  first?.response.writeHead(204).end();
  await calling.last(({ state }) => state === "sent");
  goOn?.();
  const callId = await calling.deadLetter();
  await calling.last((callback) => callback.callId === callId && callback.state === "sent");
  expect(receiver.calls).toHaveLength(2);
});

test("A name is resolved once for each connection, which goes to the address that was checked", async () => {
  const inside = await startReceiver();
  // 127.0.0.1 stands for a public address, and 127.0.0.2 for a private one.
  const resolver = resolverOf(["127.0.0.1"], ["127.0.0.2"]);
  const buyers = { ...LOCAL_BUYERS, ports: [inside.port] };
  const calling = await startCalling({ buyers }, { resolver: resolver as unknown as Resolver });
  await calling.sell(`https://buyer.example:${inside.port}/`);
  // The server speaks no TLS, so it was reached.
  const first = await calling.last(({ attempts }) => attempts === 1);
  expect(first.reason).not.toMatch(/not public|ENOTFOUND/);
  expect(resolver.asked).toEqual(["buyer.example"]);
  await calling.store.of(CALLBACKS).retryCallback(first.id);
  const second = await calling.last(({ attempts }) => attempts === 2);
  expect(second.reason).toBe("its name resolves to an address that is not public");
  expect(resolver.asked).toHaveLength(2);
});

test.each([
  ["a private address", ["10.0.0.1"]],
  ["the metadata service", ["169.254.169.254"]],
  ["a public address beside a private one", ["127.0.0.1", "192.168.0.1"]],
])("A name that resolves to %s is not called", async (_, addresses) => {
  const inside = await startReceiver();
  const resolver = resolverOf(addresses) as unknown as Resolver;
  const calling = await startCalling({ buyers: { ...LOCAL_BUYERS, ports: [inside.port] } }, { resolver });
  await calling.sell(`https://buyer.example:${inside.port}/`);
  const failed = await calling.last(({ attempts }) => attempts === 1);
  expect(failed).toMatchObject({
    state: "pending",
    reason: "its name resolves to an address that is not public",
  });
});

test("A callback whose URL the configuration no longer allows is given up", async () => {
  const receiver = await startReceiver();
  const endpoints = [{ url: receiver.url, events: ["dead_letter"] as const }];
  const calling = await startCalling({ endpoints, buyers: LOCAL_BUYERS }, { starts: false });
  await calling.deadLetter();
  await calling.sell(receiver.url);
  await calling.sender.use({ endpoints: [], buyers: undefined });
  await calling.sender.start();
  await eventually(async () => {
    const ended = await calling.store.of(CALLBACKS).listCallbacks({ limit: 9, state: "dead" });
    expect(ended.map(({ reason }) => reason)).toEqual([
      "the configuration no longer allows Callback-URL",
      "the configuration no longer has this URL",
    ]);
  });
  expect(receiver.calls).toEqual([]);
});

test("A test message is signed and sent once, and says why it failed", async () => {
  const receiver = await startReceiver(({ response }) =>
    response.writeHead(receiver.calls.length === 1 ? 200 : 500).end(),
  );
  const endpoints = [{ url: receiver.url, secrets: [SECRET] }];
  const calling = await startCalling({ endpoints }, { starts: false });
  expect(await calling.sender.test(receiver.url)).toBeUndefined();
  expect(await calling.sender.test(receiver.url)).toBe("HTTP 500");
  const [{ body, headers }] = receiver.calls as [Called];
  expect(new StandardWebhook(SECRET).verify(body, headers as Record<string, string>)).toMatchObject({
    type: "callback.test",
  });
  await receiver.stop();
  expect(await calling.sender.test(receiver.url)).toBe("ECONNREFUSED");
});

test("The store is not queried each second while no URL may be called, and at once when one may", async () => {
  const { calling, asked, pauses } = await startCounted(undefined);
  const before = asked();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(asked()).toBe(before);
  expect(calling.events.watches("acked", "deadLettered", "paymentDecided", "partChanged")).toBe(false);
  await calling.sender.use({
    endpoints: [{ url: "https://ops.example/", events: ["dead_letter"], secrets: [] }],
    buyers: undefined,
  });
  expect(calling.events.watches("paymentDecided")).toBe(true);
  await until(() => asked() === before + 1);
  await pauses();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(asked()).toBe(before + 2);
});

test("Many ends of calls query the store once, and payments never do where only buyers are called", async () => {
  const { calling, asked, pauses } = await startCounted(LOCAL_BUYERS);
  const { store, deadLetter } = calling;
  const before = asked();
  const intent = paymentIntent(1);
  await store.beginPayment(intent, paidCall());
  await store.settlePayment(intent.key, "{}");
  // Only the round's own pause is left.
  await pauses();
  for (let calls = 0; calls < 5; calls += 1) await deadLetter();
  expect(asked()).toBe(before);
  await vi.advanceTimersByTimeAsync(100);
  await until(() => asked() === before + 1);
  await pauses();
  expect(asked()).toBe(before + 1);
});

/** Starts a sender whose timers the test turns on, and counts its questions for due callbacks. */
async function startCounted(buyers: CallbackTargets["buyers"]) {
  let asked = 0;
  let answered = 0;
  const calling = await startCalling(
    { buyers },
    {
      starts: false,
      withLedger: (ledger) => ({
        ...ledger,
        async listDueCallbacks(page) {
          asked += 1;
          const due = await ledger.listDueCallbacks(page);
          answered += 1;
          return due;
        },
      }),
    },
  );
  // The loop measures the time since its last round, too.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  await calling.sender.start();
  // Nothing is due, so that a round pauses as soon as it has its answer. The number of timers would not show that: the store
  // has a timer of its own, which counts once it was set again. `eventually` would let the timers go on with each look.
  const pauses = () => until(() => asked > 0 && answered === asked);
  await pauses();
  return { calling, asked: () => asked, pauses };
}
