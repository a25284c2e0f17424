import { expect, onTestFinished, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { until } from "../helpers/until.ts";
import { answer, SECRET, startTarget } from "../parts/push/push-harness.ts";

const GATEWAY = `service_id = 1
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

test("A webhook is pushed to the configured target, a reload changes it, and its answer stays out of the log", async () => {
  const first = await startTarget((pushed) => answer(pushed, 422, "the answer's own words"));
  const second = await startTarget((pushed) => answer(pushed));
  const configOf = (url: string) =>
    `${GATEWAY}[[push]]\nurl = "${url}"\njob_ids = [3]\nsecret = "${SECRET}"\n`;
  const jobgate = await startEmbeddedJobgate({ config: configOf(first.url) });
  onTestFinished(async () => void (await jobgate.stop()));
  const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
  const post = () =>
    fetch(`${jobgate.webhooksUrl}/hooks/a`, {
      method: "POST",
      body: "a,b",
      headers: { "content-type": "text/csv" },
    });

  await post();
  await until(async () => (await operator.getTotals({})).calls?.dead === 1n);
  expect(first.requests.map(({ body }) => body.toString())).toEqual(["a,b"]);
  expect(first.requests[0]?.headers).toMatchObject({ "content-type": "text/csv", "ce-subject": "3" });
  const { deadLetters } = await operator.listDeadLetters({});
  expect(deadLetters[0]?.reason).toBe("HTTP 422: the answer's own words");
  expect(jobgate.logs.join("\n")).not.toContain("own words");
  const named = `push to ${new URL(first.url).origin}`;
  expect((await operator.listRunners({})).runners).toMatchObject([
    { subscriber: named, jobIds: [3n], maxInFlight: 8, inFlight: 0 },
  ]);

  await jobgate.reload(configOf(second.url));
  const after = `push to ${new URL(second.url).origin}`;
  await until(async () => {
    const { runners } = await operator.listRunners({});
    return runners.map(({ subscriber }) => subscriber).join() === after;
  });
  await post();
  await until(() => second.requests.length === 1);
});
