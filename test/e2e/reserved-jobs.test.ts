import { expect, onTestFinished, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { mistakesOf, TOKEN, X402 } from "../config/config-folder.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";
import { climateJob, weatherApi } from "./sold-api.ts";

const JOB = 10n;
const WAIT = "calls wait for a job of an API that is not configured";

/** Paths of the requests that reached the API. */
const seen: string[] = [];
const api = startBeforeAll(() =>
  listenHttp({
    handler({ url = "" }, response) {
      seen.push(url);
      response.end("mild");
    },
  }),
);
const parts = startBeforeAll(startPaidParts);

/** A gateway with a runner for all jobs, and one paid call that waits for its API. */
async function startWaiting(city: string) {
  const [apis, job] = [weatherApi(api.url), climateJob(JOB)];
  let whole = "";
  const edit = (config: string) => {
    whole = `${config}${apis}${job}`;
    return whole;
  };
  const gateway = await startPaidGateway({ parts, setUp: "rpc_url", asProcess: true, edit });
  onTestFinished(() => gateway.stop());
  const operator = () => createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } });
  const network = `eip155:${parts.anvil.chainId}` as const;
  const pay = payingFetch({ account: accounts.payer, network, spendControls: false });
  const paused = gateway.duringSettle(() => operator().pause({ target: `1/${JOB}`, by: "ada" }));
  expect((await pay(`${gateway.jobgate.x402Url}/climate/${city}`)).status).toBe(202);
  await paused;
  return {
    gateway,
    whole,
    withoutJob: whole.replace(job, ""),
    withoutApi: whole.replace(apis, "").replace(job, ""),
    forRunners: whole.replace(apis, "").replace('answer = "accepted"\napi = "weather"\n', ""),
    resume: () => operator().resume({ target: `job:1/${JOB}`, by: "ada" }),
    /** Ends jobgate by kill -9, and starts it with another configuration. */
    restart: (config: string) => gateway.restart({ signal: "SIGKILL", asProcess: true, edit: () => config }),
    /** Waits until the runner has a later call of another job. */
    async runLater(body: string) {
      await gateway.send(await gateway.sign(), { body });
      await gateway.waitForJobs(body);
    },
    jobsOfApi: () => gateway.delivered.filter(({ jobId }) => jobId === JOB),
    logged: () => gateway.jobgate.logs.filter((line) => line.includes(WAIT)),
  };
}

test("A push target of a job of an API is a mistake", async () => {
  const toml = (jobId: bigint) => `${X402}${TOKEN}
[[apis]]
name = "weather"
url = "http://127.0.0.1:8000"
[[jobs]]
job_index = ${JOB}
route = "GET /climate/{city}"
mode = "public_paid"
charge = "before"
price_wei = "1000000000000000"
api = "weather"
[[push]]
url = "http://127.0.0.1:8001"
job_ids = [3, ${jobId}]
`;
  expect(await mistakesOf(toml(11n))).toEqual([]);
  expect(await mistakesOf(toml(JOB))).toMatchObject([
    {
      place: expect.stringMatching(/ push\[0\]\.job_ids$/),
      message: "has 10, the job_index of a job of API weather; expected jobs of runners",
    },
  ]);
});

test("Calls of a removed job of an API go to no runner after a reload and kill -9, and to the API once it is back", async () => {
  const given = await startWaiting("Oslo");
  const { gateway } = given;
  await gateway.jobgate.reload(given.withoutJob);
  await until(() => given.logged().length > 0);
  await given.resume();
  const named = await startRunner({ address: gateway.jobgate.runnerAddress, jobIds: [JOB] });
  onTestFinished(() => named.kill());
  await given.runLater("after the reload");
  expect([given.jobsOfApi(), named.calls]).toEqual([[], []]);
  expect(given.logged().map((line) => JSON.parse(line))).toMatchObject([{ jobId: `${JOB}`, waiting: 1 }]);

  await given.restart(given.withoutApi);
  expect(given.logged().map((line) => JSON.parse(line))).toMatchObject([{ jobId: `${JOB}`, waiting: 1 }]);
  await given.runLater("after the kill");
  expect(given.jobsOfApi()).toEqual([]);

  await given.restart(given.whole);
  await until(() => seen.includes("/climate/Oslo"));
  expect([given.jobsOfApi(), given.logged()]).toEqual([[], []]);
});

test("Calls of a job of an API go to runners once the configuration has the job without an API", async () => {
  const given = await startWaiting("Rome");
  await given.gateway.jobgate.reload(given.withoutJob);
  await until(() => given.logged().length > 0);
  await given.resume();
  await given.runLater("while it waits");
  expect(given.jobsOfApi()).toEqual([]);
  await given.gateway.jobgate.reload(given.forRunners);
  await until(() => given.jobsOfApi().length === 1);
  expect(seen).not.toContain("/climate/Rome");
});
