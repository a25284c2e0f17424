import { expect, test } from "vitest";
import type { Job, WebhookEndpoint } from "../../../src/config/config.ts";
import { JobReservation } from "../../../src/parts/apis/reserved-jobs.ts";
import { RESERVED_JOBS } from "../../../src/parts/apis/store/module.ts";
import { startLog } from "../../helpers/log.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { acceptId, claimCalls } from "../../store/store-fixtures.ts";

type Tables = Parameters<JobReservation["add"]>[0];

const log = startLog();

async function startReservation() {
  const { store } = await openTestStore();
  const reserved: (readonly bigint[])[] = [];
  const reservation = new JobReservation({
    ledger: store.of(RESERVED_JOBS),
    dispatcher: { reserve: (jobIds) => void reserved.push(jobIds) },
    logger: log.logger,
  });
  return { store, reservation, reserved };
}

/** A configuration with jobs of an API, other jobs, jobs of `[job_pricing]` and webhooks, each by its ID. */
function tablesOf(ids: {
  readonly ofApi?: readonly number[];
  readonly ofRunners?: readonly number[];
  readonly priced?: readonly number[];
  readonly webhooks?: readonly number[];
}): Tables {
  const { ofApi = [], ofRunners = [], priced = [], webhooks = [] } = ids;
  const runner = { kind: "api", name: "weather" };
  const jobs = [
    ...ofApi.map((jobIndex) => ({ serviceId: 1n, jobIndex, runner })),
    ...ofRunners.map((jobIndex) => ({ serviceId: 1n, jobIndex })),
  ] as Partial<Job>[] as Job[];
  const jobPricing = new Map([...ofApi, ...priced].map((jobIndex) => [`1/${jobIndex}`, 1n]));
  const endpoints = webhooks.map((jobId) => ({ jobId: BigInt(jobId) })) as Partial<WebhookEndpoint>[];
  return { x402: { jobs, jobPricing }, webhooks: { endpoints } } as object as Tables;
}

test("Jobs of APIs stay reserved without their API, and are released once a job, a price or a webhook has the ID", async () => {
  const { store, reservation, reserved } = await startReservation();
  const ledger = store.of(RESERVED_JOBS);
  const ids = async () => (await ledger.listReservedJobs()).map(({ jobId }) => Number(jobId));
  await reservation.add(tablesOf({ ofApi: [10, 11, 12, 13] }));
  await reservation.apply(tablesOf({ ofApi: [10, 11, 12, 13] }));
  expect(await ids()).toEqual([10, 11, 12, 13]);
  await reservation.add({});
  await reservation.apply({});
  expect(await ids()).toEqual([10, 11, 12, 13]);
  await reservation.apply(tablesOf({ ofApi: [10], ofRunners: [11], priced: [12], webhooks: [13] }));
  expect([await ids(), reserved.at(-1)]).toEqual([[10], [10n]]);
});

test("A configuration without APIs is taken while the store does not answer", async () => {
  const { store, reservation } = await startReservation();
  await store.close();
  await expect(reservation.add(tablesOf({ ofApi: [10] }))).rejects.toThrow();
  await reservation.add(tablesOf({ ofRunners: [10] }));
});

test("A call waits because no API does its job, while that is so", async () => {
  const { reservation } = await startReservation();
  const reasons = () => [10n, 11n].map((jobId) => reservation.waitReasons(jobId));
  await reservation.add(tablesOf({ ofApi: [10] }));
  await reservation.apply(tablesOf({ ofApi: [10] }));
  expect(reasons()).toEqual([[], []]);
  await reservation.apply({});
  expect(reasons()).toEqual([[expect.stringContaining("No API of the configuration does job 10")], []]);
  await reservation.apply(tablesOf({ ofRunners: [10] }));
  expect(reasons()).toEqual([[], []]);
});

test("Waiting calls of jobs that no API does are logged with their number, at the start with calls of a killed process", async () => {
  const { store, reservation } = await startReservation();
  await reservation.add(tablesOf({ ofApi: [10, 11, 12] }));
  for (const jobId of [10n, 10n, 11n]) await acceptId(store, { jobId });
  expect(await claimCalls(store)).toEqual([]);
  await claimCalls(store, { jobIds: [10n], reserves: true, limit: 1 });
  const logged = async () => {
    await reservation.apply(tablesOf({ ofApi: [11] }));
    return log.lines.splice(0).map(({ level, jobId, waiting }) => ({ level, jobId, waiting }));
  };
  expect(await logged()).toEqual([{ level: 40, jobId: "10", waiting: 2 }]);
  expect(await logged()).toEqual([{ level: 40, jobId: "10", waiting: 1 }]);
});
