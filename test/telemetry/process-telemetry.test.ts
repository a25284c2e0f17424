import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { ProcessTelemetry } from "../../src/telemetry/process-telemetry.ts";
import { measure, NO_TELEMETRY } from "../../src/telemetry/telemetry.ts";

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
    const work = () => new Promise<string>((resolve) => setTimeout(() => resolve("fine"), 30));
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
  const lines = await scrapeAfter(async () => {
    await new Promise((resolve) => setTimeout(resolve, 60));
    const until = performance.now() + 300;
    while (performance.now() < until);
    await new Promise((resolve) => setTimeout(resolve, 60));
  });
  const sum = Number(
    / (\S+)$/.exec(lines.find((line) => line.startsWith("jobgate_event_loop_delay_seconds_sum")) ?? "")?.[1],
  );
  expect(sum).toBeGreaterThan(0.2);
});
