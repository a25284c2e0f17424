import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { countText, plural } from "../../../page/shared/format.js";
import { client, useAnswer, useEndpoints, useRates, useTotals } from "../../../page/tools/client.ts";
import { Hint, Table } from "../../../page/tools/controls.tsx";
import {
  Ago,
  Badge,
  CallLink,
  JobLink,
  jobFilters,
  jobText,
  SECOND_MS,
  useJobName,
} from "../../../page/tools/format.tsx";
import { type Filters, href } from "../../../page/tools/route.ts";
import { Activity, Queue, RevenuePanel } from "./charts.tsx";
import type { Flow, FlowingCall } from "./events.ts";
import { NoJobs } from "./jobs.tsx";
import { PART_VIEWS } from "./part-views.ts";
import { usePaymentsToLookAt } from "./payments.tsx";

/** First view: problems for the operator, queue depths, and JobCalls in progress. */
export function Overview({ flow, filters }: { flow: Flow; filters: Filters }) {
  return (
    <>
      <Attention />
      <Tiles />
      <div class="columns">
        <Activity />
        <Queue />
        <FlowPanel flow={flow} />
        <div class="stack">
          <RevenuePanel filters={filters} />
          <Runners />
        </div>
      </div>
    </>
  );
}

/** Most endpoints without a runner that are named. */
const MOST_UNTAKEN = 5;

/** Links to what the operator should decide or repair. */
function Attention() {
  const look = usePaymentsToLookAt().data;
  const rates = useRates().data?.rates;
  const unusable = rates?.filter(({ usable }) => !usable) ?? [];
  const count = look?.items.length ?? 0;
  const untaken = useUntakenJobs() ?? [];
  const nameOf = useJobName();
  const ofParts = PART_VIEWS.flatMap(({ useAttention }) => useAttention?.() ?? []);
  const isQuiet = [untaken, unusable, ofParts].every(({ length }) => length === 0) && count === 0;
  if (isQuiet) return null;
  return (
    <p class="notice warn">
      {untaken.slice(0, MOST_UNTAKEN).map((job) => (
        <a key={jobText(job)} href={href("jobs", { ...jobFilters(job), state: "ready" })}>
          {plural(Number(job.calls), "job")} of {nameOf(job)} {job.calls === 1n ? "waits" : "wait"}, and no
          runner that is connected here takes {job.calls === 1n ? "it" : "them"}
        </a>
      ))}{" "}
      {untaken.length > MOST_UNTAKEN && (
        <a href={href("jobs", { state: "ready" })}>
          Jobs of {plural(untaken.length - MOST_UNTAKEN, "other endpoint")} wait as well
        </a>
      )}{" "}
      {count > 0 && (
        <a href={href("payments", { state: "look" })}>
          {look?.nextPageToken
            ? `${countText(count)}+ payments need`
            : `${plural(count, "payment")} ${count === 1 ? "needs" : "need"}`}{" "}
          a look
        </a>
      )}{" "}
      {ofParts.map(({ to, text }) => (
        <a key={text} href={to}>
          {text}
        </a>
      ))}{" "}
      {unusable.length > 0 && (
        <a href={href("settings")}>
          The rate of {unusable.map(({ symbol }) => symbol).join(", ")} is not usable
        </a>
      )}
    </p>
  );
}

function Tiles() {
  const { data } = useTotals();
  const { calls, payments, paidCalls, oldestReadyAt } = data ?? {};
  // Times in addresses are exact to a second; the filter excludes its end.
  const oldest = oldestReadyAt && new Date(timestampMs(oldestReadyAt) + SECOND_MS).toISOString();
  return (
    <section class="tiles" aria-label="Totals">
      <Tile name="Waiting" count={calls?.ready} to={href("jobs", { state: "ready" })}>
        {oldestReadyAt === undefined ? (
          "nothing waits"
        ) : (
          <a href={href("jobs", { state: "ready", until: oldest })}>
            oldest since <Ago time={oldestReadyAt} suffix="" />
          </a>
        )}
      </Tile>
      <Tile name="With runners" count={calls?.leased} to={href("jobs", { state: "leased" })}>
        out at a runner
      </Tile>
      <Tile name="Being decided" count={payments?.intent} to={href("payments", { state: "intent" })}>
        <Count number={payments?.unresolved} to={href("payments", { state: "unresolved" })} tone="warn">
          unresolved
        </Count>
      </Tile>
      <Tile name="Dead letters" count={calls?.dead} to={href("dead-letters")} tone="bad">
        {calls?.dead === 0n ? "none" : "to retry or drop"}
      </Tile>
      <Tile name="Payments settled" count={payments?.settled} to={href("payments", { state: "settled" })}>
        <Count number={payments?.failed} to={href("payments", { state: "failed" })}>
          failed
        </Count>
      </Tile>
      <Tile
        name="Paid jobs done"
        count={paidCalls?.done}
        to={href("jobs", { state: "done", origin: "x402" })}
      >
        <span data-tone={data?.balanced === false ? "bad" : undefined}>
          journal {data?.balanced === false ? "NOT balanced" : "balanced"}
        </span>
      </Tile>
    </section>
  );
}

/** A number that leads to its list. `tone` applies to a number above 0. */
function Tile(props: {
  name: string;
  count?: bigint | undefined;
  to: string;
  tone?: string;
  children: ComponentChildren;
}) {
  const { name, count, to, tone, children } = props;
  return (
    <div class="tile">
      <h2>{name}</h2>
      <a
        class="figure"
        href={to}
        aria-label={`${name}: ${count === undefined ? "–" : countText(count)}`}
        data-tone={count ? tone : undefined}
      >
        {count === undefined ? "–" : countText(count)}
      </a>
      <p class="muted">{children}</p>
    </div>
  );
}

/** A number within a sentence, which leads to its list unless it is 0. */
function Count(props: { number: bigint | undefined; to: string; tone?: string; children: string }) {
  const { number = 0n, to, tone, children } = props;
  const text = `${countText(number)} ${children}`;
  if (number === 0n) return <>{text}</>;
  return (
    <a href={to} data-tone={tone}>
      {text}
    </a>
  );
}

/** Shortest time between two redraws, so that the list can be read. */
const REDRAW_MS = 250;

/** One line per JobCall with its state, newest first. */
function FlowPanel({ flow }: { flow: Flow }) {
  const [isPaused, setPaused] = useState(false);
  const [calls, setCalls] = useState(flow.calls);
  useEffect(() => {
    if (isPaused) return;
    let shown: FlowingCall[] = [];
    const timer = setInterval(() => {
      const { calls } = flow;
      if (calls.length === shown.length && calls.every((call, index) => call === shown[index])) return;
      shown = calls;
      setCalls(calls);
    }, REDRAW_MS);
    return () => clearInterval(timer);
  }, [isPaused]);
  return (
    <section class="panel" aria-labelledby="flow-title">
      <div class="panel-head">
        <h2 id="flow-title">What flows now</h2>
        <p class="muted">
          <Rate flow={flow} />
        </p>
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Go on" : "Pause"}
        </button>
      </div>
      {flow.missed > 0 && <p class="muted">{plural(flow.missed, "event")} missed: too fast for this page.</p>}
      {calls.length === 0 && (
        <div class="empty">
          <NoJobs />
        </div>
      )}
      <ol class="lines">
        {calls.map(({ callId, stage, state, job, amount, percent, detail, at }) => (
          <li class="call" key={String(callId)} data-stage={stage}>
            <Badge stage={stage}>{state}</Badge>
            <CallLink callId={callId} />
            <span>{job && <JobLink {...job} />}</span>
            <span class="detail">
              {amount && <span class="amount">{amount}</span>}
              {percent !== undefined && <progress value={percent} max={100} aria-label={`Call ${callId}`} />}
              {detail && <span>{detail}</span>}
            </span>
            <span class="muted nowrap">
              <Ago time={at} />
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Rate({ flow }: { flow: Flow }) {
  const [text, setText] = useState("");
  useEffect(() => {
    const timer = setInterval(
      () => setText(`${flow.perSecond("accepted")} in/s · ${flow.perSecond("acked")} done/s`),
      SECOND_MS,
    );
    return () => clearInterval(timer);
  }, []);
  return <>{text}</>;
}

/** Connected runners and their unfinished JobCalls. */
function Runners() {
  const namesOf = useNamesOfJobs();
  const { data } = useAnswer(["runners"], 3 * SECOND_MS, (options) => client.listRunners({}, options));
  return (
    <section class="panel" aria-labelledby="runners-title">
      <h2 id="runners-title">
        Runners {data && data.runners.length > 0 && <span class="count">{data.runners.length}</span>}
      </h2>
      <Table
        caption="Runners connected"
        // Two streams may have the same name and start time.
        items={data?.runners.map((runner, index) => ({ ...runner, index }))}
        keyOf={({ subscriber, index }) => `${subscriber} ${index}`}
        empty={<NoRunner />}
        columns={[
          { label: "Runner", class: "words", cell: ({ subscriber }) => subscriber },
          { label: "Jobs", class: "words", cell: ({ jobIds }) => jobIds.map(namesOf).join(", ") || "all" },
          {
            label: "In flight",
            class: "nowrap",
            cell: ({ inFlight, maxInFlight }) => (
              <>
                <a href={href("jobs", { state: "leased" })}>
                  {countText(inFlight)} of {countText(maxInFlight)}
                </a>
                <meter class="block" min={0} max={maxInFlight} value={inFlight} aria-label="In flight" />
              </>
            ),
          },
          {
            label: "Connected",
            class: "nowrap",
            cell: ({ connectedSince }) => <Ago time={connectedSince} />,
          },
        ]}
      />
    </section>
  );
}

/**
 * Returns a function that adds to a job ID the names of the jobs and endpoints that have the ID. Runners take the
 * JobCalls of all of them.
 */
function useNamesOfJobs(): (jobId: bigint) => string {
  const endpoints = useEndpoints().data?.endpoints ?? [];
  return (jobId) => {
    const names = new Set(endpoints.flatMap((one) => (one.jobId === jobId && one.name ? one.name : [])));
    return [`${jobId}`, ...names].join(" ");
  };
}

/** Jobs that wait, and that no runner connected to this process takes. */
function useUntakenJobs() {
  return useAnswer(["untaken"], 3 * SECOND_MS, (options) => client.listUntakenJobs({}, options)).data?.jobs;
}

/** Shown while no runner is connected. It offers no runner of jobgate, because that runner would finish the jobs of buyers. */
function NoRunner() {
  return (
    <Hint command="jobgate tail">
      No runner is connected: start your runner (docs/writing-a-runner.md). To see what happens then:
    </Hint>
  );
}
