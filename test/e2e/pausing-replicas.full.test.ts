import { expect, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import type { Jobgate } from "../helpers/jobgate-process.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";

const postgres = startBeforeAll(startPostgres);
const url = startBeforeAll(async () => {
  const database = await postgres.createDatabase();
  return { database, stop: () => Promise.resolve() };
});
const startReplica = () =>
  startEmbeddedJobgate({
    config: `
[store]
url = "${url.database}"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
auth = "none"
[[webhooks.endpoints]]
path = "/hooks/b"
job_id = 2
auth = "none"
`,
  });
const one = startBeforeAll(startReplica);
const other = startBeforeAll(startReplica);
const operator = (jobgate: Jobgate) => createOperatorClient({ address: { url: jobgate.operatorUrl } });
const send = async (jobgate: Jobgate, path: string) =>
  (await fetch(`${jobgate.webhooksUrl}${path}`, { method: "POST", body: "event" })).status;

const often = { interval: 20 };

test("A pause at one replica keeps calls from the runners of another, and is ended at either", async () => {
  await operator(one).pause({ target: "/hooks/a", by: "ada", refuseAccepts: true });
  expect(await send(one, "/hooks/a")).toBe(503);
  await expect.poll(() => send(other, "/hooks/a"), often).toBe(503);
  await operator(one).pause({ target: "/hooks/a", by: "ada" });
  expect(await send(one, "/hooks/a")).toBe(202);
  const runner = await startRunner({ address: other.runnerAddress });
  expect(await send(one, "/hooks/b")).toBe(202);
  await expect.poll(() => runner.calls.map(({ jobId }) => jobId), often).toEqual([2n]);
  const { paused } = await operator(other).getTotals({});
  expect(paused).toMatchObject([{ key: "/hooks/a", pause: { by: "ada" } }]);
  await operator(other).resume({ target: "/hooks/a", by: "bob" });
  await expect.poll(() => runner.calls.some(({ jobId }) => jobId === 1n), often).toBe(true);
  await expect.poll(async () => (await operator(one).getTotals({})).paused, often).toEqual([]);
  await runner.stop();
});
