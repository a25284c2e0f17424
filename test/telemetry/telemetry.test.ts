import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { createPrometheusTelemetry } from "../../src/telemetry/prometheus.ts";
import { measure, NO_TELEMETRY } from "../../src/telemetry/telemetry.ts";

const asked = (outcome: (value: string) => string) => ({
  histogram: "jobgate_facilitator_request_duration_seconds" as const,
  labels: (result: { value: string } | { error: unknown }) => ({
    operation: "verify",
    outcome: "value" in result ? outcome(result.value) : "error",
  }),
  span: "test",
});

async function told(work: (telemetry: ReturnType<typeof createPrometheusTelemetry>) => Promise<unknown>) {
  const telemetry = createPrometheusTelemetry();
  const registry = new Registry();
  telemetry.addTo(registry);
  await work(telemetry);
  telemetry.stop();
  return (await registry.metrics()).split("\n");
}

it("Measured work gives what it gives, and is told of with its outcome and how long it took", async () => {
  const lines = await told(async (telemetry) => {
    const work = () => new Promise<string>((resolve) => setTimeout(() => resolve("fine"), 30));
    expect(
      await measure(
        telemetry,
        asked((value) => value),
        work,
      ),
    ).toBe("fine");
  });
  const labels = 'operation="verify",outcome="fine"';
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_count{${labels}} 1`);
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_bucket{le="0.025",${labels}} 0`);
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_bucket{le="30",${labels}} 1`);
});

it("What measured work throws is thrown, and told of", async () => {
  const failure = new Error("no");
  const lines = await told(async (telemetry) => {
    await expect(measure(telemetry, asked(String), () => Promise.reject(failure))).rejects.toBe(failure);
  });
  const labels = 'operation="verify",outcome="error"';
  expect(lines).toContain(`jobgate_facilitator_request_duration_seconds_count{${labels}} 1`);
});

it("Without an operator's listener the same work is done, and nobody is told", async () => {
  expect(await measure(NO_TELEMETRY, asked(String), async () => "fine")).toBe("fine");
});

it("A blocked event loop is seen", async () => {
  const lines = await told(async () => {
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
