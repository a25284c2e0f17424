import { expect, onTestFinished, test } from "vitest";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { callJson } from "./harness.ts";

const configOf = ({ leaseSecs = 60, maxPending = 1_000, endpoints = "" }) => `service_id = 1
[store]
max_pending = ${maxPending}
[runner]
bind_address = "127.0.0.1:0"
lease_secs = ${leaseSecs}
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
${endpoints}`;

test("After a reload GetConfiguration shows the settings in use", async () => {
  const jobgate = await startJobgate({ config: configOf({}) });
  onTestFinished(async () => void (await jobgate.stop()));
  async function shown() {
    const { answer } = await callJson(jobgate.operatorUrl, "GetConfiguration");
    const { store, runner, webhooks } = answer.configuration as {
      store: { max_pending: string };
      runner: { lease: string };
      webhooks: { endpoints: { path: string }[] };
    };
    return {
      maxPending: store.max_pending,
      lease: runner.lease,
      paths: webhooks.endpoints.map(({ path }) => path),
    };
  }
  const before = { maxPending: "1000", lease: "60s", paths: ["/hooks/a"] };
  expect(await shown()).toEqual(before);
  const endpoints = '[[webhooks.endpoints]]\npath = "/hooks/b"\njob_id = 4\n';
  await jobgate.reload(configOf({ leaseSecs: 7, maxPending: 7, endpoints }));
  await expect.poll(shown, { timeout: 10_000 }).toEqual({ ...before, paths: ["/hooks/a", "/hooks/b"] });
});
