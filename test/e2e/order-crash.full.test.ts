import { expect, onTestFinished, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import type { JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { freePort } from "../helpers/free-port.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { startRunner } from "../helpers/runner.ts";
import { randomFrom } from "../helpers/seeded-random.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";

/** `JOBGATE_ORDER_CALLS=100000` takes minutes. */
const CALLS = Number(process.env.JOBGATE_ORDER_CALLS ?? 2_000);
const OF_EACH_KEY = 10;
const KEYS = CALLS / OF_EACH_KEY;
const KILLS = 3;
const RUNNERS = 4;
const IN_FLIGHT = 50;
const SENDERS = 32;
const LEASE_MS = 5_000;
/** Time by which clocks of the test and of jobgate read a lease differently at most. */
const MARGIN_MS = 1_000;
const WAIT_MS = 60_000 + CALLS * 20;

interface Event {
  readonly key: number;
  readonly number: number;
}

type Fate = "done" | "retried" | "dead" | "left";

/** Fate of each event at its first delivery, which is the same in each run. */
const fates = new Map<string, Fate>();
const random = randomFrom(1);
for (let key = 0; key < KEYS; key++)
  for (let number = 0; number < OF_EACH_KEY; number++) {
    const drawn = random(1_000);
    const fate = drawn < 20 ? "retried" : drawn < 30 ? "dead" : drawn < 32 ? "left" : "done";
    fates.set(`${key} ${number}`, fate);
  }

/** Deliveries as runners see them, and the promises that they break. */
class Deliveries {
  readonly broken: string[] = [];
  /** Numbers of the events of each key that were delivered so far: all up to this one. */
  readonly #begun = new Map<number, number>();
  readonly #out = new Map<number, { readonly callId: bigint; readonly until: number }>();
  readonly #done = new Set<bigint>();
  delivered = 0;

  begin(call: JobCall, { key, number }: Event): void {
    const name = `event ${number} of key ${key}`;
    if (this.#done.has(call.callId)) this.broken.push(`${name} was delivered after its ack`);
    const out = this.#out.get(key);
    if (out !== undefined && out.callId !== call.callId && performance.now() < out.until)
      this.broken.push(`${name} was delivered while JobCall ${out.callId} of its key was out`);
    const begun = this.#begun.get(key) ?? -1;
    if (number > begun + 1) this.broken.push(`${name} was delivered before event ${begun + 1}`);
    if (number === begun + 1) {
      this.#begun.set(key, number);
      this.delivered++;
    }
    this.#out.set(key, { callId: call.callId, until: performance.now() + LEASE_MS - MARGIN_MS });
  }

  /** The outcome of a delivery is on its way. */
  ends({ key }: Event): void {
    this.#out.delete(key);
  }

  acked({ callId }: JobCall): void {
    this.#done.add(callId);
  }
}

test("Kills of jobgate, lost leases, retries and dead letters lose no webhook of a key, and keep the order of each", {
  timeout: 2 * WAIT_MS,
}, async () => {
  const folder = await testFolder();
  const ports = await Promise.all([freePort(), freePort(), freePort()]);
  const [runnerAddress = "", webhooksAddress = "", operatorAddress = ""] = ports.map(
    (port) => `127.0.0.1:${port}`,
  );
  const config = `
service_id = 1
[store]
url = "sqlite:jobgate.db"
max_pending = ${CALLS}
[runner]
bind_address = "${runnerAddress}"
lease_secs = ${LEASE_MS / 1000}
retry_base_secs = 0.01
[operator]
bind_address = "${operatorAddress}"
[webhooks]
bind_address = "${webhooksAddress}"
[[webhooks.endpoints]]
path = "/events"
job_id = 1
order_by = "json:/key"
dedupe = { header = "X-Delivery-Id" }
`;
  const start = () => startJobgate({ config, folder });
  let jobgate = await start();
  let isOver = false;
  onTestFinished(async () => {
    isOver = true;
    await jobgate.stop();
  });

  const deliveries = new Deliveries();
  const handle = async (call: JobCall) => {
    const event = JSON.parse(Buffer.from(call.body).toString()) as Event;
    deliveries.begin(call, event);
    const fate = fates.get(`${event.key} ${event.number}`);
    if (fate === "left" && call.attempt === 1) return new Promise<undefined>(() => undefined);
    await new Promise(setImmediate);
    deliveries.ends(event);
    if (fate === "retried" && call.attempt === 1) throw new Error("again");
    if (fate === "dead") throw new Fail("never");
    return undefined;
  };
  const keepRunner = async (name: string) => {
    const onDone = (call: JobCall) => deliveries.acked(call);
    const options = { address: runnerAddress, subscriber: name, maxInFlight: IN_FLIGHT, handle, onDone };
    while (!isOver) {
      const runner = await startRunner(options).catch(() => undefined);
      await runner?.ended;
      runner?.kill();
    }
  };
  for (let i = 0; i < RUNNERS; i++) void keepRunner(`runner ${i}`);

  const send = async (event: Event): Promise<void> => {
    const headers = { "x-delivery-id": `${event.key} ${event.number}` };
    await until(async () => {
      const response = await fetch(`http://${webhooksAddress}/events`, {
        ...{ method: "POST", headers, body: JSON.stringify(event) },
      }).catch(() => undefined);
      await response?.arrayBuffer().catch(() => undefined);
      return response?.status === 202;
    });
  };
  let sent = 0;
  const sendKeys = async (first: number) => {
    for (let number = 0; number < OF_EACH_KEY; number++)
      for (let key = first; key < KEYS; key += SENDERS) {
        await send({ key, number });
        sent++;
      }
  };
  const sending = Promise.all(Array.from({ length: SENDERS }, (_, i) => sendKeys(i)));

  for (let kill = 1; kill <= KILLS; kill++) {
    await until(() => sent >= (CALLS * kill) / (KILLS + 1), { waitMs: WAIT_MS });
    jobgate.kill("SIGKILL");
    await jobgate.exited;
    jobgate = await start();
  }
  await sending;
  const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
  const isEmpty = async () => (await operator.getInfo({})).store?.pending === 0n;
  await until(async () => deliveries.broken.length > 0 || isEmpty(), { waitMs: WAIT_MS });
  expect(deliveries.broken).toEqual([]);
  expect(deliveries.delivered).toBe(CALLS);
  const { totalDeadLetters } = await operator.listDeadLetterGroups({});
  expect(Number(totalDeadLetters)).toBe([...fates.values()].filter((fate) => fate === "dead").length);
});
