import { expect, onTestFinished, test } from "vitest";
import { startJobgate } from "../helpers/jobgate-process.ts";

const CONFIG = `service_id = 1
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
`;

test("jobgate serve runs from its sources, as in development", async () => {
  const jobgate = await startJobgate({ config: CONFIG, from: "sources" });
  onTestFinished(async () => void (await jobgate.stop()));
  const accepted = await fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body: "x" });
  expect(accepted.status).toBe(202);
});
