import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { measure, NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { ProcessTelemetry } from "../../../src/parts/telemetry/process-telemetry.ts";
import { until } from "../../helpers/until.ts";

/** Between the bounds of two buckets. */
const TOOK_MS = 30;

const asked = (outcome: (value: string) => string) => ({
  histogram: "jobgate_facilitator_request_duration_seconds" as const,
  labels: (result: { value: string } | { error: unknown }) => ({
    facilitator: "local",
    operation: "verify",
    outcome: "value" in result ? outcome(result.value) : "error",
  }),
  span: "test",
});

async function scrapeAfter(work: (telemetry: ProcessTelemetry) => Promise<unknown>) {
  const telemetry = new ProcessTelemetry();
  const registry = new Registry();
  telemetry.addTo(registry);
  await work(telemetry);
  await telemetry.stop();
  return (await registry.metrics()).split("\n");
}

it("measure() returns what the work returns, and records its outcome and its duration", async () => {
  const lines = await scrapeAfter(async (telemetry) => {
    const work = () => new Promise<string>((resolve) => setTimeout(() => resolve("fine"), TOOK_MS));
    expect(
      await measure(
        telemetry,
        asked((value) => value),
        work,
      ),
    ).toBe("fine");
  });
  const labels = 'facilitator="local",operation="verify",outcome="fine"';
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_count{${labels}} 1`);
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_bucket{le="0.025",${labels}} 0`);
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_bucket{le="30",${labels}} 1`);
});

it("measure() throws what the work throws, and records the error", async () => {
  const failure = new Error("no");
  const lines = await scrapeAfter(async (telemetry) => {
    await expect(measure(telemetry, asked(String), () => Promise.reject(failure))).rejects.toBe(failure);
  });
  const labels = 'facilitator="local",operation="verify",outcome="error"';
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_count{${labels}} 1`);
});

it("measure() runs the work without telemetry too", async () => {
  expect(await measure(NO_TELEMETRY, asked(String), async () => "fine")).toBe("fine");
});

it("A blocked event loop shows in jobgate_event_loop_delay_seconds", async () => {
  let delayed = 0;
  await scrapeAfter(async (telemetry) => {
    const registry = new Registry();
    telemetry.addTo(registry);
    const read = async (part: "count" | "sum") => {
      const name = `jobgate_event_loop_delay_seconds_${part}`;
      const line = (await registry.metrics()).split("\n").find((text) => text.startsWith(name));
      return Number(line?.split(" ").at(-1));
    };
    const ticksAfter = (count: number) => until(async () => (await read("count")) > count);
    await ticksAfter(0);
    const before = await read("sum");
    const ticks = await read("count");
    const end = performance.now() + 300;
    while (performance.now() < end);
    await ticksAfter(ticks);
    delayed = (await read("sum")) - before;
  });
  expect(delayed).toBeGreaterThan(0.2);
});
