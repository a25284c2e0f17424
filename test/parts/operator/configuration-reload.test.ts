import { status as grpc } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { callJson } from "../../helpers/operator.ts";
import { makeRunnerClient } from "../../helpers/runner-client.ts";

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
  const jobgate = await startEmbeddedJobgate({ config: configOf({}) });
  onTestFinished(async () => void (await jobgate.stop()));
  async function shown() {
    const { answer } = await callJson(jobgate.operatorUrl, "GetConfiguration");
    const { store, runner, webhooks } = answer.configuration as {
      store: { max_pending: number };
      runner: { lease_secs: number };
      webhooks: { endpoints: { path: string }[] };
    };
    return {
      maxPending: store.max_pending,
      leaseSecs: runner.lease_secs,
      paths: webhooks.endpoints.map(({ path }) => path),
    };
  }
  const before = { maxPending: 1_000, leaseSecs: 60, paths: ["/hooks/a"] };
  expect(await shown()).toEqual(before);
  const endpoints = '[[webhooks.endpoints]]\npath = "/hooks/b"\njob_id = 4\n';
  await jobgate.reload(configOf({ leaseSecs: 7, maxPending: 7, endpoints }));
  await expect.poll(shown).toEqual({ ...before, paths: ["/hooks/a", "/hooks/b"] });
});

test("After a reload any of the tokens in the file is accepted, by both listeners, and others are not", async () => {
  const withTokens = (tokens: string) =>
    configOf({}).replace(/\[(runner|operator)\]/g, `$&\ntoken = ${tokens}`);
  const jobgate = await startEmbeddedJobgate({ config: withTokens('"old"') });
  onTestFinished(async () => void (await jobgate.stop()));
  async function accepted() {
    const answers = ["old", "new", "none"].map(async (token) => {
      const { status } = await fetch(`${jobgate.operatorUrl}/metrics`, {
        headers: { authorization: `Bearer ${token}` },
      });
      const runner = makeRunnerClient({ address: jobgate.runnerAddress, token });
      const code = await runner.ack({}).then(
        () => grpc.OK,
        (error: { code: number }) => error.code,
      );
      runner.close();
      return { token, isOperator: status === 200, isRunner: code !== grpc.UNAUTHENTICATED };
    });
    return (await Promise.all(answers)).flatMap(({ token, isOperator, isRunner }) => [
      ...(isOperator ? [`operator ${token}`] : []),
      ...(isRunner ? [`runner ${token}`] : []),
    ]);
  }
  expect(await accepted()).toEqual(["operator old", "runner old"]);
  await jobgate.reload(withTokens('["new", "old"]'));
  await expect.poll(accepted).toEqual(["operator old", "runner old", "operator new", "runner new"]);
  await jobgate.reload(withTokens('["new"]'));
  await expect.poll(accepted).toEqual(["operator new", "runner new"]);
});
