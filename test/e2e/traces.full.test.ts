import { expect, it, onTestFinished } from "vitest";
import { listenHttp } from "../helpers/http-listener.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";

const CONFIG = `
[store]
url = "sqlite:own.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/traced"
job_id = 30
auth = "none"
`;

it("A trace collector that is silent neither fails requests nor delays a stop", async () => {
  const silent = await listenHttp({ handler: () => undefined });
  onTestFinished(() => silent.stop());
  const jobgate = await startJobgate({
    config: CONFIG,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: silent.url,
      OTEL_EXPORTER_OTLP_TIMEOUT: "3600000",
      OTEL_BSP_EXPORT_TIMEOUT: "3600000",
      OTEL_BSP_SCHEDULE_DELAY: "50",
    },
  });
  onTestFinished(async () => void (await jobgate.stop()));
  for (let i = 0; i < 20; i++) {
    const sent = await fetch(`${jobgate.webhooksUrl}/hooks/traced`, { method: "POST", body: "x" });
    expect(sent.status).toBe(202);
  }
  jobgate.kill("SIGTERM");
  expect((await jobgate.exited).code).toBe(0);
});
