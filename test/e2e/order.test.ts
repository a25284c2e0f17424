import { expect, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { Fail } from "../../src/runner/job.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";

const jobgate = startBeforeAll(() =>
  startEmbeddedJobgate({
    config: `
service_id = 1
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/json"
job_id = 1
order_by = "json:/data/customer"
[[webhooks.endpoints]]
path = "/header"
job_id = 2
order_by = "header:X-Customer"
on_dead = "hold"
`,
  }),
);
const operator = () => createOperatorClient({ address: { url: jobgate.operatorUrl } });
const within = { timeout: 10_000, interval: 20 };

async function send(path: string, body: string, headers: Record<string, string> = {}): Promise<number> {
  const response = await fetch(`${jobgate.webhooksUrl}${path}`, { method: "POST", body, headers });
  expect(response.status).toBe(202);
  return ((await response.json()) as { call_id: number }).call_id;
}

const event = (customer: unknown, number: number) => JSON.stringify({ data: { customer }, number });

test("Webhooks of one customer run one after the other in the order of their acceptance", async () => {
  const running = new Map<string, number>();
  const seen = new Map<string, number[]>();
  const runner = await startRunner({
    address: jobgate.runnerAddress,
    jobIds: [1n],
    maxInFlight: 50,
    async handle(call) {
      const { data, number } = JSON.parse(Buffer.from(call.body).toString());
      const key = String(data.customer);
      running.set(key, (running.get(key) ?? 0) + 1);
      expect(running.get(key)).toBe(1);
      seen.set(key, [...(seen.get(key) ?? []), number]);
      await new Promise(setImmediate);
      running.set(key, 0);
    },
  });
  const customers = ["a", "b", 3];
  for (let number = 0; number < 8; number += 1)
    for (const customer of customers) await send("/json", event(customer, number));
  await expect.poll(() => runner.done.length, within).toBe(24);
  const all = Array.from({ length: 8 }, (_, number) => number);
  expect(Object.fromEntries(seen)).toEqual({ a: all, b: all, 3: all });
  await runner.stop();
});

test("A retry holds up its own key, and a request without a key waits for none", async () => {
  const bodies: string[] = [];
  const runner = await startRunner({
    address: jobgate.runnerAddress,
    jobIds: [1n],
    handle: "leave",
  });
  const first = await send("/json", event("a", 1));
  await runner.waitFor(1);
  await send("/json", event("a", 2));
  for (const other of [event("b", 1), event({}, 1), "no JSON", event("", 1)]) await send("/json", other);
  await runner.waitFor(5);
  for (const { body } of runner.calls.slice(1)) bodies.push(Buffer.from(body).toString());
  expect(bodies).toEqual([event("b", 1), event({}, 1), "no JSON", event("", 1)]);
  const held = await operator().getCall({ callId: BigInt(first + 1) });
  expect(held.call?.state).toBe(1);
  for (const { callId, leaseToken } of runner.calls) await runner.ack({ acks: [{ callId, leaseToken }] });
  await runner.waitFor(6);
  expect(Buffer.from(runner.calls[5]?.body ?? []).toString()).toBe(event("a", 2));
  const { callId, leaseToken } = runner.calls[5] ?? expect.fail();
  await runner.ack({ acks: [{ callId, leaseToken }] });
  await runner.stop();
});

test("A dead letter holds its key up until the operator retries or drops it, and operators and metrics see that", async () => {
  let fails = true;
  const bodies: string[] = [];
  const runner = await startRunner({
    address: jobgate.runnerAddress,
    jobIds: [2n],
    handle({ body }) {
      bodies.push(Buffer.from(body).toString());
      if (fails) throw new Fail("no ink");
    },
  });
  const metric = async (name: string) => {
    const text = await (await fetch(`${jobgate.operatorUrl}/metrics`)).text();
    return text.split("\n").filter((line) => line.startsWith(name) && line.includes("/header"));
  };
  const headers = { "x-customer": "ada" };
  const dead = await send("/header", "one", headers);
  await expect.poll(async () => (await operator().listHeldKeys({})).keys.length, within).toBe(1);
  await send("/header", "two", headers);
  await send("/header", "three", headers);
  const { keys } = await operator().listHeldKeys({});
  expect(keys).toMatchObject([{ endpoint: "/header", key: "ada", callId: BigInt(dead), waiting: 2n }]);
  expect(await metric("jobgate_order_keys")).toEqual([
    'jobgate_order_keys{endpoint="/header",state="active"} 0',
    'jobgate_order_keys{endpoint="/header",state="held"} 1',
    'jobgate_order_keys{endpoint="/header",state="paused"} 0',
  ]);
  expect(await metric("jobgate_order_waiting_calls")).toEqual([
    'jobgate_order_waiting_calls{endpoint="/header"} 2',
  ]);
  await operator().retryDeadLetters({ callIds: [BigInt(dead)] });
  await expect.poll(() => bodies, within).toEqual(["one", "one"]);
  await expect.poll(async () => (await operator().listHeldKeys({})).keys.length, within).toBe(1);
  fails = false;
  await operator().dropDeadLetters({ callIds: [BigInt(dead)] });
  await expect.poll(() => bodies, within).toEqual(["one", "one", "two", "three"]);
  expect((await operator().listHeldKeys({})).keys).toEqual([]);
  await runner.stop();
});
