import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { RunnerReport } from "../../../src/delivery/subscription.ts";
import { OperatorService } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { UntakenJobs, untakenBy } from "../../../src/parts/operator/untaken-jobs.ts";
import type { WaitingJob } from "../../../src/store/store.ts";
import { configOf } from "../../config/config-folder.ts";
import { startLog } from "../../helpers/log.ts";
import { type OperatorUnderTest, startOperator } from "../../helpers/operator.ts";
import { startRunner } from "../../helpers/runner.ts";
import { webhookCall } from "../../store/store-fixtures.ts";

const CONFIG = `
service_id = 1
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/first"
job_id = 500
auth = "none"
[[webhooks.endpoints]]
path = "/second"
name = "orders"
job_id = 500
auth = "none"
[[webhooks.endpoints]]
path = "/other"
job_id = 501
auth = "none"
`;

const runner = (report: Partial<RunnerReport> = {}): RunnerReport => ({
  subscriber: "runner",
  jobIds: [],
  inFlight: 0,
  maxInFlight: 1,
  connectedSince: 0,
  reserves: false,
  ...report,
});

describe("The API", () => {
  let jobgate: OperatorUnderTest;
  const untaken = async () => {
    const transport = createConnectTransport({ httpVersion: "1.1", baseUrl: jobgate.url });
    return (await createClient(OperatorService, transport).listUntakenJobs({})).jobs;
  };
  beforeAll(async () => {
    jobgate = await startOperator({ configuration: await configOf(CONFIG) });
  });
  afterAll(() => jobgate?.stop());

  test("names the jobs that wait while runners are connected for others only", async () => {
    const other = await startRunner({
      address: jobgate.runnerAddress,
      subscriber: "other",
      jobIds: [501n],
      handle: "leave",
    });
    await expect.poll(() => jobgate.connectedRunners()).toBe(1);
    for (const jobId of [500n, 501n, 500n, 502n]) await jobgate.store.accept(webhookCall({ jobId }));
    await other.waitFor(1);
    expect(await untaken()).toMatchObject([
      { origin: "webhook", serviceId: 1n, jobId: 500n, name: "orders", calls: 2n },
      { origin: "webhook", serviceId: 1n, jobId: 502n, name: "", calls: 1n },
    ]);
    const all = await startRunner({ address: jobgate.runnerAddress, subscriber: "all", handle: "leave" });
    await all.waitFor(3);
    expect(await untaken()).toEqual([]);
    await Promise.all([other.stop(), all.stop()]);
    await expect.poll(() => jobgate.connectedRunners()).toBe(0);
    // The calls of the runners that left wait again, once the delay of their retry is over.
    await expect
      .poll(async () => (await untaken()).map(({ jobId, calls }) => `${jobId}: ${calls}`))
      .toEqual(["500: 2", "501: 1", "502: 1"]);
  });
});

describe("Jobs that no runner takes", () => {
  test("are all jobs except the jobs that runners name, if no runner takes all", () => {
    expect(untakenBy([], [])).toEqual({ kind: "except", jobIds: [] });
    const named = [runner({ jobIds: [1n, 2n] }), runner({ jobIds: [2n, 3n] })];
    expect(untakenBy(named, [])).toEqual({ kind: "except", jobIds: [1n, 2n, 3n] });
    expect(untakenBy([...named, runner()], [])).toEqual({ kind: "only", jobIds: [] });
  });

  test("are the jobs of a paused runner, and reserved jobs even beside runners for all jobs and for these jobs", () => {
    const reserved = [1n, 2n];
    const paused = runner({ jobIds: reserved, reserves: true, maxInFlight: 0 });
    expect(untakenBy([paused], reserved)).toEqual({ kind: "except", jobIds: [] });
    expect(untakenBy([paused, runner()], reserved)).toEqual({ kind: "only", jobIds: [1n, 2n] });
    expect(untakenBy([runner({ jobIds: [2n, 3n] })], reserved)).toEqual({ kind: "except", jobIds: [3n] });
    const reserving = runner({ jobIds: [1n], reserves: true });
    const others = [runner(), runner({ jobIds: [2n] })];
    expect(untakenBy([reserving, ...others], reserved)).toEqual({ kind: "only", jobIds: [2n] });
    expect(untakenBy([runner({ maxInFlight: 0 })], [])).toEqual({ kind: "except", jobIds: [] });
  });
});

describe("The log and the metric", () => {
  let now: number;
  let waiting: WaitingJob[];
  const log = startLog();
  const events = () =>
    log.lines.splice(0).map(({ level, job, jobName, waiting }) => ({ level, job, jobName, waiting }));
  const job = (jobId: bigint, count = 5): WaitingJob => ({
    ...{ origin: "webhook", serviceId: 1n, jobId, count, oldestAt: 1_000 },
  });
  let jobs: UntakenJobs;
  beforeEach(async () => {
    const config = await configOf(CONFIG);
    [now, waiting] = [0, []];
    jobs = new UntakenJobs({
      store: {
        countWaiting: () => Promise.resolve(waiting),
        status: () => ({ writable: true, full: false, pending: waiting.length }),
      },
      runners: () => [],
      reserved: () => [],
      configuration: () => config,
      logger: log.logger,
      clock: () => now,
    });
  });
  const lookAt = async (at: number, found: WaitingJob[]) => {
    [now, waiting] = [at, found];
    await jobs.look();
    return events();
  };

  test("A job without a runner is logged once after half a minute, and once when it is taken again", async () => {
    expect(await lookAt(0, [job(500n)])).toEqual([]);
    expect(await lookAt(29_999, [job(500n)])).toEqual([]);
    const found = { level: 40, job: "1/500", jobName: "orders", waiting: 7 };
    expect(await lookAt(30_000, [job(500n, 7), job(501n)])).toEqual([found]);
    expect(await lookAt(40_000, [job(500n), job(501n)])).toEqual([]);
    expect(await lookAt(50_000, [job(501n)])).toEqual([{ level: 30, job: "1/500", jobName: "orders" }]);
    expect(await lookAt(55_000, [])).toEqual([]);
    expect(await lookAt(60_000, [job(501n)])).toEqual([]);
  });

  test("The metric has 0 for jobs that runners take, and also counts jobs that the configuration lost", async () => {
    waiting = [job(500n, 7), job(9n, 2)];
    const labels = (job_id: string, job_name = "") => ({
      origin: "webhook",
      service_id: "1",
      job_id,
      job_name,
    });
    expect(await jobs.gauge.read(undefined, 0)).toEqual([
      [7, labels("500", "orders")],
      [0, labels("501")],
      [2, labels("9")],
    ]);
  });
});
