import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { Fail, type Handler, type Job, json, Retry, RunnerError } from "../../src/runner/job.ts";
import type { RunOptions } from "../../src/runner/run.ts";
import { openStoreForTest } from "../delivery/harness.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";
import { startWorkDelivery } from "../parts/work-stream/harness.ts";
import { startRun } from "./start-run.ts";

const MIB = 1024 * 1024;

/** Starts a runner listener on a real store, and records how JobCalls are finished. */
async function startWatched(config: Parameters<typeof startWorkDelivery>[0] = {}) {
  const delivery = await startWorkDelivery(config);
  const { store } = delivery;
  const ack = vi.spyOn(store, "ack");
  const retry = vi.spyOn(store, "retry");
  const fail = vi.spyOn(store, "fail");
  const extend = vi.spyOn(store, "extend");
  onTestFinished(() => {
    for (const spy of [ack, retry, fail, extend]) spy.mockRestore();
  });
  const script = (...bodies: string[]) =>
    Promise.all(bodies.map((body) => delivery.accept({ body: Buffer.from(body) })));
  const calls = { acks: ack.mock.calls, retries: retry.mock.calls, fails: fail.mock.calls };
  return { ...delivery, ...calls, extensions: extend.mock.calls, script };
}

test("A handler returns text, bytes, JSON or nothing", async () => {
  const { address, acks, script } = await startWatched();
  const returned: Record<string, Awaited<ReturnType<Handler>>> = {
    text: "grüß",
    bytes: new Uint8Array([0, 255]),
    json: json({ done: true }),
    html: { body: "<p>", contentType: "text/html" },
    full: Buffer.alloc(MIB),
    nothing: undefined,
    status: {
      body: "",
      status: 404,
      headers: [
        ["ETag", '"1"'],
        ["Set-Cookie", "a=b"],
      ],
    },
    object: { body: "", headers: { ETag: '"2"' } },
  };
  const bodies = Object.keys(returned);
  const ids = await script(...bodies);
  startRun(({ body }) => returned[body.toString()], { address });
  await until(() => acks.length === bodies.length);
  const results = ids.map((id) => acks.find(([{ callId }]) => callId === id)?.[1]);
  expect(results.map((result) => result?.contentType)).toEqual([
    "text/plain; charset=utf-8",
    "application/octet-stream",
    "application/json",
    "text/html",
    "application/octet-stream",
    undefined,
    "text/plain; charset=utf-8",
    "text/plain; charset=utf-8",
  ]);
  expect(results[6]).toMatchObject({ status: 404, headers: [["etag", '"1"']] });
  expect(results[7]).toMatchObject({ headers: [["etag", '"2"']] });
  const texts = results.map((result) => result && Buffer.from(result.body).toString("latin1"));
  expect(texts.slice(0, 4)).toEqual(["grÃ¼Ã\u009f", "\0ÿ", '{"done":true}', "<p>"]);
  expect(results[4]?.body).toHaveLength(MIB);
});

test("An error retries and is logged with its stack, Retry gives a delay, Fail makes a dead letter", async () => {
  const { address, retries, fails, script } = await startWatched({ retryBaseMs: 60_000, retryMaxMs: 60_000 });
  await script("bug", "later", "never", "text");
  const { lines } = startRun(
    async ({ body }) => {
      if (body.toString() === "later") throw new Retry("the model loads", { delayMs: 3_600_000 });
      if (body.toString() === "never") throw new Fail("the picture is empty");
      if (body.toString() === "text") await Promise.reject("only text");
      throw new TypeError("it is undefined");
    },
    { address },
  );
  await until(() => retries.length + fails.length === 4);
  const retried = retries.map(([, { reason, delayMs }]) => [reason, delayMs]);
  expect(retried.sort()).toEqual([
    ["it is undefined", undefined],
    ["only text", undefined],
    ["the model loads", 3_600_000],
  ]);
  expect(fails.map(([, reason]) => reason)).toEqual(["the picture is empty"]);
  expect(lines.filter((line) => line.includes("JobCall"))).toEqual([
    expect.stringMatching(/^JobCall \d+ is retried: TypeError: it is undefined\n +at .*run\.test/),
    expect.stringMatching(/^JobCall \d+ is retried: only text$/),
  ]);
});

test("A result that jobgate would refuse makes a dead letter that says why, and harms no other job", async () => {
  const { address, acks, fails, script } = await startWatched();
  const returned: Record<string, unknown> = {
    good: "good",
    large: Buffer.alloc(MIB + 1),
    object: { done: true },
    type: { body: "x", contentType: "a text" },
    status: { body: "x", status: 101 },
    header: { body: "x", headers: [["a b", "c"]] },
    number: { body: "x", headers: { age: 5 } },
  };
  await script(...Object.keys(returned));
  startRun(({ body }) => returned[body.toString()] as string, { address });
  await until(() => acks.length + fails.length === 7);
  expect(fails.map(([, reason]) => reason).sort()).toEqual([
    "The content type is not a media type: a text",
    "The handler did not return text, bytes, json(value) or nothing.",
    "The headers of the result are neither pairs of name and text, nor an object of texts.",
    'The result cannot be sent: "a b" is not the name of a header.',
    "The result cannot be sent: status is 101: expected 200 to 599.",
    "The result has 1048577 bytes: at most 1048576 are allowed.",
  ]);
});

test("More results than fit in one message all arrive", async () => {
  const { address, acks, script } = await startWatched();
  const bodies = Array.from({ length: 6 }, (_, index) => `${index}`);
  await script(...bodies);
  let start = (): void => undefined;
  const all = new Promise<void>((resolve) => {
    start = resolve;
  });
  let begun = 0;
  const { lines } = startRun(
    async () => {
      begun++;
      await all;
      return Buffer.alloc(MIB);
    },
    { address, concurrency: 6 },
  );
  await until(() => begun === 6);
  start();
  await until(() => acks.length === 6);
  expect(lines).toHaveLength(1);
});

test("The lease is extended while the handler works, with the progress", async () => {
  const { address, acks, extensions, script, store } = await startWatched({ leaseMs: 1_000 });
  const [callId = 0] = await script("long");
  let finish = (): void => undefined;
  startRun(
    (job) => {
      job.progress(40.7, "drawing");
      expect(() => job.progress(Number.NaN)).toThrow("percent is not a number");
      return new Promise<void>((resolve) => {
        finish = resolve;
      });
    },
    { address },
  );
  await until(() => extensions.length >= 4);
  const [lease, ...fields] = extensions[0] ?? [];
  expect(lease?.callId).toBe(callId);
  expect(fields).toEqual([1_000, { percent: 40, text: "drawing" }, undefined]);
  finish();
  await until(() => acks.length === 1);
  expect(acks[0]?.[0].callId).toBe(callId);
  await until(async () => (await store.totals()).calls.leased === 0);
});

test.each([
  ["ahead of", 3_600_000],
  ["behind", -3_600_000],
])(
  "A job longer than its lease runs once with the gateway's clock an hour %s the runner's",
  async (_, aheadMs) => {
    const store = await openStoreForTest({ clock: () => Date.now() + aheadMs });
    const { address, acks, extensions, script } = await startWatched({ leaseMs: 500, store });
    const [callId = 0] = await script("long");
    const attempts: number[] = [];
    startRun(
      async ({ attempt }) => {
        attempts.push(attempt);
        await until(() => extensions.length >= 4 || attempts.length > 1);
      },
      { address },
    );
    await until(() => acks.length > 0);
    expect(acks.map(([lease]) => lease.callId)).toEqual([callId]);
    expect(attempts).toEqual([1]);
  },
);

test("A lost lease aborts the job's signal, and its outcome is dropped", async () => {
  const { address, acks, retries, connect, script, store } = await startWatched();
  const claims = vi.spyOn(store, "claim");
  onTestFinished(() => claims.mockRestore());
  const aborted: number[] = [];
  const running: Job[] = [];
  const { lines } = startRun(
    (job) => {
      running.push(job);
      return new Promise((resolve) =>
        job.signal.addEventListener("abort", () => {
          aborted.push(job.callId);
          resolve("too late");
        }),
      );
    },
    { address },
  );
  const [callId = 0] = await script("lost");
  const claimed = async () =>
    (await Promise.all(claims.mock.results.map(({ value }) => value))).flatMap(({ calls }) => calls);
  await until(() => running.length === 1);
  const { leaseToken = "" } = (await claimed())[0] ?? {};
  await connect().nack({ callId: BigInt(callId), leaseToken, outcome: { case: "fail", value: {} } });
  // It learns it from the answer to its next extension.
  running[0]?.progress(50);
  await until(() => aborted.length === 1);
  expect(aborted).toEqual([callId]);
  expect(lines.at(-1)).toBe(`lease of JobCall ${callId} lost: the JobCall was finished before`);
  expect(acks.length + retries.length).toBe(0);
});

test("A runner waits for jobgate, and says so once; two runners share the jobs", async () => {
  const path = join(await testFolder(), "runner.sock");
  const runners = ["a", "b"].map((name) => {
    const callIds: number[] = [];
    const options = { address: `unix:${path}`, subscriber: name, concurrency: 1 };
    return { callIds, ...startRun(({ callId }) => void callIds.push(callId), options) };
  });
  await until(() => runners.every(({ lines }) => lines.length > 0));
  const { acks, script, server } = await startWatched({ bindAddress: { kind: "unix", path } });
  await until(() => server.runners().length === 2);
  const ids = await script(...Array.from({ length: 20 }, String));
  await until(() => acks.length === 20);
  expect(runners.flatMap(({ callIds }) => callIds).sort((a, b) => a - b)).toEqual(ids);
  for (const { callIds, lines } of runners) {
    expect(callIds.length).toBeGreaterThan(0);
    expect(lines.filter((line) => line.startsWith("cannot connect"))).toHaveLength(1);
    expect(lines.at(-1)).toMatch(/^connected to unix:/);
  }
});

test("A runner does not connect through the proxy of http_proxy", async () => {
  const { address, acks, script } = await startWatched();
  vi.stubEnv("http_proxy", "http://127.0.0.1:1");
  onTestFinished(() => void vi.unstubAllEnvs());
  startRun(() => undefined, { address });
  await script("job");
  await until(() => acks.length === 1);
});

test("Progress below 0 or above 100 counts as 0 or 100", async () => {
  const { address, acks, extensions, script } = await startWatched();
  await script("-1", "101");
  const finish: (() => void)[] = [];
  startRun(
    ({ body, progress }) => {
      progress(Number(body.toString()));
      return new Promise<void>((resolve) => finish.push(resolve));
    },
    { address },
  );
  await until(() => extensions.length >= 2);
  for (const end of finish) end();
  await until(() => acks.length === 2);
  const percents = extensions.flatMap(([, , progress]) => progress?.percent ?? []);
  expect([...new Set(percents)].sort((a, b) => a - b)).toEqual([0, 100]);
});

test("A stopped runner takes nothing new, finishes its jobs, and ends its stream in order", async () => {
  const { address, acks, script, server, store } = await startWatched();
  let finish: (() => void) | undefined;
  const runner = startRun(
    () =>
      new Promise<void>((resolve) => {
        finish = resolve;
      }),
    { address },
  );
  await script("first");
  await until(() => finish !== undefined);
  const stopped = runner.stop();
  await until(() => server.runners()[0]?.maxInFlight === 0);
  await script("second");
  finish?.();
  await stopped;
  expect(acks).toHaveLength(1);
  expect((await store.totals()).calls).toMatchObject({ ready: 1, leased: 0 });
  expect(runner.lines.slice(1)).toEqual(["stopping: 1 jobs in progress"]);
});

test("A runner that cannot go on says what to do", async () => {
  const { address } = await startWatched({ tokens: ["hunter2"] });
  const listeners = process.listenerCount("SIGTERM");
  const fails = (options: RunOptions) => expect(startRun(() => undefined, options).ended).rejects;
  await fails({ address, token: "wrong" }).toThrow(
    /^127.0.0.1:\d+ refuses this runner: .* Check the token, the other options of run, and the version of jobgate.$/,
  );
  await fails({ address }).toThrow(RunnerError);
  await fails({ address: "http://127.0.0.1:8403" }).toThrow("expected host:port or unix:PATH");
  await fails({ address: "localhost" }).toThrow("expected host:port or unix:PATH");
  await fails({ address, concurrency: 0 }).toThrow("concurrency is 0: expected 1 to 10000");
  expect(process.listenerCount("SIGTERM")).toBe(listeners);
});
