import type { Pausable } from "../../../gen/jobgate/v1/operator_pb.ts";
import { client, useAction, useAnswer, useTotals } from "../../../page/tools/client.ts";
import { Hint, Problem, Table, useConfirm } from "../../../page/tools/controls.tsx";
import { Ago, Badge, SECOND_MS } from "../../../page/tools/format.tsx";
import { href, type PartView } from "../../../page/tools/route.ts";

const PATH = "pausing";

/** Every job, webhook endpoint and API, to pause and resume. */
function Pausing() {
  const { data } = useAnswer(["pausables"], 5 * SECOND_MS, (options) => client.listPausables({}, options));
  const { decide, problem, dialog } = useDecision();
  return (
    <section class="panel" aria-label="Pausing">
      <p class="muted">No runner gets the jobs of what is paused. A runner that has one may finish it.</p>
      <Problem text={problem} />
      <Table
        caption="Pausing"
        items={data?.pausables}
        keyOf={nameOf}
        empty={<Hint command="jobgate init">There is no job for sale and no webhook endpoint.</Hint>}
        columns={[
          { label: "What", class: "nowrap", cell: ({ kind }) => KINDS[kind] ?? kind },
          { label: "Name", class: "wide", cell: (one) => <Name {...one} /> },
          { label: "State", class: "nowrap", cell: (one) => <State {...one} /> },
          { label: "New requests", class: "nowrap", cell: acceptsText },
          { label: "Paused by", cell: ({ pause }) => pause?.by ?? "" },
          { label: "Reason", class: "wide", cell: ({ pause }) => pause?.note ?? "" },
          { label: "Actions", class: "actions", cell: (one) => <Buttons {...{ one, decide }} /> },
        ]}
      />
      {dialog}
    </section>
  );
}

const KINDS: Readonly<Record<string, string>> = { job: "Job", endpoint: "Webhook endpoint", api: "API" };

function nameOf({ kind, key }: Pausable): string {
  return `${kind}:${key}`;
}

function Name({ key, name, sharedWith, removed, pause }: Pausable) {
  return (
    <>
      <strong>{name || key}</strong> {name && <span class="mono nowrap">{key}</span>}
      {removed && <span class="muted block">It has left the configuration.</span>}
      {pause && <span class="muted block">{othersText(sharedWith)}</span>}
    </>
  );
}

function State({ pause }: Pausable) {
  if (pause === undefined) return <Badge stage="done">Running</Badge>;
  return (
    <>
      <Badge stage="waiting">Paused</Badge> <Ago time={pause.since} />
    </>
  );
}

function acceptsText({ pause }: Pausable): string {
  return pause?.refusesAccepts ? "refused" : "accepted";
}

type Decision = "pause" | "refuse" | "resume";
type Decide = (kind: Decision, one: Pausable) => void;

const ACTIONS: Readonly<Record<Decision, { readonly action: string; readonly text: string }>> = {
  pause: { action: "Pause", text: "New requests are accepted, and their jobs wait until it is resumed." },
  refuse: {
    action: "Pause and refuse",
    text: "New requests are answered 503 until it is resumed, and not charged.",
  },
  resume: { action: "Resume", text: "Runners get the jobs that wait, and new requests are accepted." },
};

/** Buttons for the decisions that are possible now. */
function Buttons({ one, decide }: { one: Pausable; decide: Decide }) {
  return decisionsFor(one).map((kind) => (
    <button
      type="button"
      key={kind}
      aria-label={`${ACTIONS[kind].action} ${one.kind} ${one.name || one.key}`}
      onClick={() => decide(kind, one)}
    >
      {ACTIONS[kind].action}
    </button>
  ));
}

function decisionsFor({ pause, alwaysRefuses, removed }: Pausable): readonly Decision[] {
  const choices: readonly Decision[] = alwaysRefuses ? ["refuse"] : ["pause", "refuse"];
  if (pause === undefined) return choices;
  if (removed || alwaysRefuses) return ["resume"];
  return ["resume", pause.refusesAccepts ? "pause" : "refuse"];
}

/** Returns a function that asks for the operator's name and note, and then pauses or resumes. */
function useDecision() {
  const { run, problem } = useAction();
  const [ask, dialog] = useConfirm();
  const decide: Decide = (kind, one) => {
    const { action, text } = ACTIONS[kind];
    const target = nameOf(one);
    const others = kind === "resume" ? "" : othersText(one.sharedWith);
    ask({
      ...{ title: `${action}: ${one.kind} ${one.name || one.key}?`, text: `${text} ${others}`, action },
      isSigned: true,
      onAgree: (signature) =>
        void run(async () => {
          if (kind === "resume") await client.resume({ target, ...signature });
          else await client.pause({ target, refuseAccepts: kind === "refuse", ...signature });
          return kind === "resume" ? "It is resumed." : "It is paused.";
        }),
    });
  };
  return { decide, problem, dialog };
}

/** Names the other jobs that wait as well; empty if there are none. */
function othersText(sharedWith: readonly string[]): string {
  return sharedWith.length === 0
    ? ""
    : `Jobs of ${sharedWith.join(", ")} wait as well: they have the same ID.`;
}

/** Names the paused jobs above every view. */
function Banner() {
  const paused = useTotals().data?.paused ?? [];
  if (paused.length === 0) return null;
  return (
    <p class="notice warn">
      {paused.map((one) => (
        <a key={nameOf(one)} href={href(PATH)}>
          {KINDS[one.kind] ?? one.kind} {one.name || one.key} is paused by {one.pause?.by}
          {one.pause?.note && `: ${one.pause.note}`}
          {one.pause?.refusesAccepts && " (new requests are refused)"}
        </a>
      ))}
    </p>
  );
}

/** Marks a job whose calls wait. */
function OfJob({ jobId }: { jobId: bigint }) {
  const paused = useTotals().data?.paused ?? [];
  return paused.some(({ jobIds }) => jobIds.includes(jobId)) ? <Badge stage="waiting">Paused</Badge> : null;
}

export const VIEW: PartView = {
  path: PATH,
  title: "Pausing",
  after: "endpoints",
  View: Pausing,
  Banner,
  OfJob,
};
