import { useRef, useState } from "preact/hooks";
import type { DeadLetter, DeadLetterGroup } from "../../../gen/jobgate/v1/operator_pb.ts";
import { DeadLetterStatus } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, plural } from "../../../page/shared/format.js";
import { type Action, client, useAction, useAnswer } from "../../../page/tools/client.ts";
import { Hint, Problem, Table, useConfirm } from "../../../page/tools/controls.tsx";
import {
  Ago,
  CallLink,
  JobLink,
  jobFilters,
  readJob,
  SECOND_MS,
  useJobName,
} from "../../../page/tools/format.tsx";
import { Pager, readEntries } from "../../../page/tools/lists.tsx";
import { type Filters, href, open } from "../../../page/tools/route.ts";

/** Dead letters in groups by job and reason, or the dead letters of one group. */
export function DeadLetters({ filters }: { filters: Filters }) {
  const { reason, job, text = "" } = filters;
  return reason === undefined && job === undefined ? <Groups text={text} /> : <Group filters={filters} />;
}

type GroupName = Pick<DeadLetterGroup, "origin" | "serviceId" | "jobId" | "reason">;
/** Dead letters that an action concerns. */
type Target = { readonly callId: bigint } | { readonly group: GroupName; readonly count: number };

function Groups({ text }: { text: string }) {
  const { data } = useAnswer(["dead-letters", "groups", text], 15 * SECOND_MS, (options) =>
    client.listDeadLetterGroups({ text }, options),
  );
  const { act, problem, progress, dialog } = useDeadLetterActions();
  const left = data === undefined ? 0 : Number(data.totalGroups) - data.groups.length;
  return (
    <section class="panel" aria-label="Dead letters">
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span>Text in reasons</span>
          <input
            name="text"
            type="search"
            key={text}
            defaultValue={text}
            maxLength={200}
            spellcheck={false}
            onChange={({ currentTarget }) => open("dead-letters", { text: currentTarget.value.trim() })}
          />
        </label>
        {data !== undefined && (
          <span class="muted">
            {plural(Number(data.totalDeadLetters), "dead letter")} in{" "}
            {plural(Number(data.totalGroups), "group")}
          </span>
        )}
      </form>
      <Problem text={problem} />
      {progress}
      <Table
        caption="Dead letters by job and reason"
        items={data?.groups}
        keyOf={({ origin, serviceId, jobId, reason }) => `${origin} ${serviceId}/${jobId} ${reason}`}
        empty={
          <Hint>
            {text === ""
              ? "There are no dead letters. A job whose attempts all fail comes here."
              : "No reason of a dead letter has this text."}
          </Hint>
        }
        columns={[
          {
            label: "Dead letters",
            class: "number",
            cell: (group) => (
              <a
                class="figure small"
                href={href("dead-letters", { ...jobFilters(group), reason: group.reason })}
              >
                {String(group.count)}
              </a>
            ),
          },
          { label: "Job", class: "nowrap", cell: (group) => <JobLink {...group} /> },
          { label: "Reason", class: "wide", cell: ({ reason }) => reason },
          { label: "Oldest", class: "nowrap", cell: ({ oldestDeadAt }) => <Ago time={oldestDeadAt} /> },
          { label: "Newest", class: "nowrap", cell: ({ newestDeadAt }) => <Ago time={newestDeadAt} /> },
          {
            label: "Actions",
            class: "actions",
            cell: (group) => <Buttons act={act} target={{ group, count: Number(group.count) }} />,
          },
        ]}
      />
      {left > 0 && <p class="muted">{plural(left, "smaller group")} not shown.</p>}
      {dialog}
    </section>
  );
}

function Group({ filters }: { filters: Filters }) {
  const { origin = "", reason = "", before } = filters;
  const { serviceId = 0n, jobId = 0n } = readJob(filters.job);
  const group = { origin, serviceId, jobId, reason };
  const { data: entries } = useAnswer(["dead-letters", JSON.stringify(filters)], 15 * SECOND_MS, (options) =>
    readEntries<DeadLetter>(before, async (page) => {
      const { deadLetters, nextPageToken } = await client.listDeadLetters({ ...page, ...group }, options);
      return { items: deadLetters, nextPageToken };
    }),
  );
  const { act, problem, progress, dialog } = useDeadLetterActions();
  const nameOf = useJobName();
  const count = entries?.items.length ?? 0;
  return (
    <section class="panel" aria-labelledby="group">
      <p>
        <a href={href("dead-letters")}>← All groups</a>
      </p>
      <div class="panel-head">
        <h2 id="group">
          {nameOf(group)}: {reason}
        </h2>
        {count > 1 && <Buttons act={act} target={{ group, count: entries?.nextPageToken ? 0 : count }} />}
      </div>
      <Problem text={problem} />
      {progress}
      <Table
        caption="Dead letters"
        items={entries?.items}
        keyOf={({ callId }) => String(callId)}
        empty={<Hint>There are no dead letters with this job and reason any more.</Hint>}
        columns={[
          { label: "Call", cell: ({ callId }) => <CallLink callId={callId} /> },
          { label: "Attempts", class: "number", cell: ({ attempts }) => attempts },
          { label: "Accepted", class: "nowrap", cell: ({ enqueuedAt }) => <Ago time={enqueuedAt} /> },
          { label: "Died", class: "nowrap", cell: ({ deadAt }) => <Ago time={deadAt} /> },
          { label: "Reason", class: "wide", cell: ({ reason }) => reason },
          {
            label: "Actions",
            class: "actions",
            cell: ({ callId }) => <Buttons act={act} target={{ callId }} />,
          },
        ]}
      />
      <Pager path="dead-letters" filters={filters} entries={entries} />
      {dialog}
    </section>
  );
}

/** Retries or drops the dead letter of a call's page. */
export function DeadLetterActions({ callId }: { callId: bigint }) {
  const { act, problem, dialog } = useDeadLetterActions();
  return (
    <span class="actions">
      <Problem text={problem} />
      <Buttons act={act} target={{ callId }} />
      {dialog}
    </span>
  );
}

type Act = (kind: "retry" | "drop", target: Target) => void;

function Buttons({ act, target }: { act: Act; target: Target }) {
  const nameOf = useJobName();
  const [all, what] =
    "callId" in target
      ? ["", `call ${target.callId}`]
      : [" all", `all of ${nameOf(target.group)}: ${target.group.reason}`];
  return (
    <>
      <button type="button" aria-label={`Retry ${what}`} onClick={() => act("retry", target)}>
        Retry{all}
      </button>
      <button type="button" class="danger" aria-label={`Drop ${what}`} onClick={() => act("drop", target)}>
        Drop{all}
      </button>
    </>
  );
}

const NO_WAY_BACK =
  "No runner gets it any more, and this cannot be undone. If it was paid, its client sees that it failed.";

/** Retries at once, and asks before it drops dead letters or retries many. */
function useDeadLetterActions() {
  const { run, problem } = useAction();
  const [ask, dialog] = useConfirm();
  const [done, setDone] = useState<Done & { readonly of: number }>();
  const isStopped = useRef(false);
  const nameOf = useJobName();
  const act: Act = (kind, target) => {
    const of = "count" in target ? target.count : 0;
    const onDone = (done: Done | undefined) => setDone(done && { ...done, of });
    const onAgree = () => {
      isStopped.current = false;
      void perform(run, kind, { target, onDone, isStopped: () => isStopped.current });
    };
    if ("callId" in target) {
      if (kind === "retry") return onAgree();
      return ask({
        title: `Drop call ${target.callId}?`,
        text: NO_WAY_BACK,
        action: "Drop it",
        isDangerous: true,
        onAgree,
      });
    }
    const { count, group } = target;
    const letters = count === 0 ? "all of these dead letters" : plural(count, "dead letter");
    const where = `${nameOf(group)}: ${group.reason}`;
    ask(
      kind === "retry"
        ? {
            title: `Retry ${letters}?`,
            text: `${where}. They go back to the queue with their attempts forgiven.`,
            action: "Retry all",
            onAgree,
          }
        : {
            title: `Drop ${letters}?`,
            text: `${where}. ${NO_WAY_BACK}`,
            action: "Drop all",
            isDangerous: true,
            onAgree,
          },
    );
  };
  const progress = done && (
    <p class="muted">
      <span role="status">
        {countText(done.count)}
        {done.of > 0 && ` of ${countText(done.of)}`} done
        {done.isWaiting ? "; waiting until half of the queue is free …" : " …"}
      </span>{" "}
      <button
        type="button"
        onClick={() => {
          isStopped.current = true;
        }}
      >
        Stop
      </button>
    </p>
  );
  return { act, problem, progress, dialog };
}

/** Progress of an action on a group. */
interface Done {
  readonly count: number;
  /** True while the queue has no room for more JobCalls. */
  readonly isWaiting: boolean;
}

/** Dead letters that an action concerns. */
interface Work {
  readonly target: Target;
  /** Receives the progress of the action, and undefined at its end. */
  readonly onDone: (done: Done | undefined) => void;
  readonly isStopped: () => boolean;
}

async function perform(run: Action["run"], kind: "retry" | "drop", work: Work): Promise<void> {
  const button = document.activeElement;
  await run(async () => {
    const count = await actOn(kind, work).finally(() => work.onDone(undefined));
    // The button disappears with its row, so the next row gets the focus, unless the operator has moved the focus.
    if (document.activeElement === button) {
      const row = button?.closest("tr");
      const next = (row?.nextElementSibling ?? row?.previousElementSibling)?.querySelector<HTMLElement>("a");
      (next ?? document.querySelector("h1"))?.focus();
    }
    return `${plural(count, "dead letter")} ${kind === "retry" ? "back in the queue" : "dropped"}.`;
  });
}

/** @returns the number of dead letters that were retried or dropped */
async function actOn(kind: "retry" | "drop", { target, onDone, isStopped }: Work): Promise<number> {
  const call = kind === "retry" ? client.retryDeadLetters : client.dropDeadLetters;
  if ("callId" in target) {
    const { statuses } = await call({ callIds: [target.callId] });
    if (statuses[0] === DeadLetterStatus.DONE) return 1;
    throw new Error(
      statuses[0] === DeadLetterStatus.REFUND_BEGUN
        ? "It is not retried: its buyer was not charged, or is or may be paid back. A refund that failed can be declined first."
        : "This dead letter had been dealt with already.",
    );
  }
  let total = 0;
  let pageToken = "";
  do {
    const { count, nextPageToken } = await call({ group: target.group, pageToken });
    total += Number(count);
    pageToken = nextPageToken;
    const isWaiting = count === 0n && pageToken !== "";
    onDone({ count: total, isWaiting });
    if (isWaiting) await new Promise((resolve) => setTimeout(resolve, SECOND_MS));
  } while (pageToken !== "" && !isStopped());
  return total;
}
