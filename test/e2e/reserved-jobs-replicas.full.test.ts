import { expect, onTestFinished, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { CallState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";
import { climateJob, weatherApi } from "./sold-api.ts";

const JOB = 10n;

/** Attempts that reached the API, which never answers the first. */
const attempts: unknown[] = [];
const api = startBeforeAll(() =>
  listenHttp({
    handler({ headers }, response) {
      attempts.push(headers["x-jobgate-attempt"]);
      if (attempts.length > 1) response.end("mild");
    },
  }),
);
const parts = startBeforeAll(startPaidParts);
const postgres = startBeforeAll(startPostgres);

/** Starts a replica without APIs, and a runner for all of its jobs. */
async function startOther(url: string) {
  const jobgate = await startEmbeddedJobgate({
    config: `
[store]
url = "${url}"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
auth = "none"
`,
  });
  const runner = await startRunner({ address: jobgate.runnerAddress });
  const named = await startRunner({ address: jobgate.runnerAddress, jobIds: [JOB] });
  onTestFinished(async () => {
    await jobgate.stop();
    for (const one of [runner, named]) one.kill();
  });
  return {
    operator: createOperatorClient({ address: { url: jobgate.operatorUrl } }),
    jobIds: () => [...runner.calls, ...named.calls].map(({ jobId }) => jobId),
    send: () => fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body: "event" }),
  };
}

test("A replica that has never known an API gives no call of the API to its runners, even if the API's replica is killed", async () => {
  const storeUrl = await postgres.createDatabase();
  const other = await startOther(storeUrl);
  const gateway = await startPaidGateway({
    ...{ parts, setUp: "rpc_url", storeUrl, asProcess: true, jobIds: [0n] },
    edit: (config) => config + weatherApi(api.url) + climateJob(JOB),
  });
  onTestFinished(() => gateway.stop());
  const network = `eip155:${parts.anvil.chainId}` as const;
  const pay = payingFetch({ account: accounts.payer, network, spendControls: false });
  const bought = await pay(`${gateway.jobgate.x402Url}/climate/Oslo`);
  const { call_id } = (await bought.json()) as { readonly call_id: number };
  await until(() => attempts.length === 1);
  gateway.jobgate.kill("SIGKILL");
  // The lease ends ten seconds later, and the call is due again.
  const isDue = async () => {
    const { call } = await other.operator.getCall({ callId: BigInt(call_id) });
    return call?.state === CallState.READY;
  };
  await until(isDue, { waitMs: 30_000 });
  await other.send();
  await until(() => other.jobIds().length > 0);
  expect([other.jobIds(), attempts]).toEqual([[3n], ["1"]]);
  await gateway.startAgain({ asProcess: true });
  await until(() => attempts.length === 2);
  expect(other.jobIds()).toEqual([3n]);
});
