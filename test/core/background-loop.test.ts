import { setImmediate } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { BackgroundLoop } from "../../src/core/background-loop.ts";

const HOUR_MS = 3_600_000;

/** A loop whose steps the test ends one by one. */
async function startLoop({ firstMs = 0 } = {}) {
  const told: string[] = [];
  const steps: ((end: number | Error) => void)[] = [];
  const loop = new BackgroundLoop({
    step: () =>
      new Promise((resolve, reject) => {
        steps.push((end) => (typeof end === "number" ? resolve(end) : reject(end)));
      }),
    firstMs,
    retryMs: 1,
    onTrouble: (error) => void told.push((error as Error).message),
    onRecovery: () => void told.push("recovered"),
  });
  await loop.start();
  onTestFinished(async () => {
    const stopping = loop.stop();
    steps.at(-1)?.(0);
    await stopping;
  });
  const begun = (count: number) => expect.poll(() => steps.length).toBe(count);
  return { loop, told, begun, end: (end: number | Error) => steps.at(-1)?.(end) };
}

it("A step begins the pause that it returns after it has ended, and never beside another", async () => {
  const { loop, begun, end } = await startLoop();
  await begun(1);
  loop.wake();
  loop.wake();
  await begun(1);
  end(HOUR_MS);
  await begun(2);
  end(1);
  await begun(3);
});

it("Waking a loop ends its pause, also the one before the first step", async () => {
  const { loop, begun, end } = await startLoop({ firstMs: HOUR_MS });
  loop.wake();
  await begun(1);
  end(HOUR_MS);
  loop.wake(1);
  loop.wake(1);
  await begun(2);
});

it("A wake that gathers others begins a step at once, unless a step began within the time to gather", async () => {
  const { loop, begun, end } = await startLoop({ firstMs: HOUR_MS });
  loop.wake(HOUR_MS);
  await begun(1);
  end(HOUR_MS);
  loop.wake(HOUR_MS);
  await setImmediate();
  await begun(1);
  loop.wake();
  await begun(2);
});

it("The first error in a row is reported, and the first success after it", async () => {
  const { told, begun, end } = await startLoop();
  for (const [count, step] of [new Error("one"), new Error("two"), 1, 1, new Error("three")].entries()) {
    await begun(count + 1);
    end(step);
  }
  await begun(6);
  expect(told).toEqual(["one", "recovered", "three"]);
});

it("A stopped loop ends its present step and begins no other", async () => {
  const { loop, begun, end } = await startLoop();
  await begun(1);
  let isStopped = false;
  const stopping = loop.stop().then(() => (isStopped = true));
  await Promise.resolve();
  expect(isStopped).toBe(false);
  end(1);
  await stopping;
  loop.wake();
  await begun(1);
});
