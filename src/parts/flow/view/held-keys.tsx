import { useState } from "preact/hooks";
import type { HeldKey } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText } from "../../../page/shared/format.js";
import { client, useAction, useAnswer, useEndpoints, useTotals } from "../../../page/tools/client.ts";
import { Hint, Problem, Table, useConfirm } from "../../../page/tools/controls.tsx";
import { Ago, Badge, CallLink, SECOND_MS } from "../../../page/tools/format.tsx";
import { href, type PartView } from "../../../page/tools/route.ts";

const PATH = "held-keys";
/** Most keys that are shown, because one answer has no more keys. */
const MOST = 500;

/** List of the keys that are held by a dead letter or paused, with buttons to resume them, and a form to pause a key. */
function HeldKeys() {
  const { data } = useAnswer([PATH], 5 * SECOND_MS, (options) =>
    client.listHeldKeys({ pageSize: MOST }, options),
  );
  const { decide, problem, dialog } = useDecision();
  return (
    <>
      <section class="panel" aria-label="Pause a key">
        <p class="muted">
          Webhooks of a key run one after the other. A dead letter holds its key up until it is retried or
          dropped, if its endpoint says so. A paused key waits until it is resumed.
        </p>
        <PauseForm decide={decide} />
      </section>
      <section class="panel" aria-label="Held keys">
        <Problem text={problem} />
        <Table
          caption="Held keys"
          items={data?.keys}
          keyOf={nameOf}
          empty={<Hint>No dead letter holds up a key, and no key is paused.</Hint>}
          columns={[
            { label: "Key", class: "wide", cell: ({ key }) => <strong>{key}</strong> },
            {
              label: "Endpoint",
              class: "wide",
              cell: ({ endpoint }) => <span class="mono">{endpoint}</span>,
            },
            { label: "State", class: "nowrap", cell: (one) => <State {...one} /> },
            { label: "Waiting", class: "number", cell: ({ waiting }) => countText(waiting) },
            { label: "New requests", class: "nowrap", cell: acceptsText },
            { label: "Paused by", cell: ({ pause }) => pause?.by ?? "" },
            { label: "Reason", class: "wide", cell: ({ pause }) => pause?.note ?? "" },
            { label: "Actions", class: "actions", cell: (one) => <Button {...{ one, decide }} /> },
          ]}
        />
        {dialog}
      </section>
    </>
  );
}

function nameOf({ endpoint, key }: HeldKey): string {
  return `${endpoint}\n${key}`;
}

function State({ callId, since, pause, isOneOut }: HeldKey) {
  return (
    <>
      {callId !== 0n && (
        <span class="block">
          <Badge stage="dead">Held</Badge> by <CallLink callId={callId} /> <Ago time={since} />
        </span>
      )}
      {pause && (
        <span class="block">
          <Badge stage="waiting">Paused</Badge> <Ago time={pause.since} />
        </span>
      )}
      {isOneOut && <span class="muted block">A runner has one of its jobs.</span>}
    </>
  );
}

function acceptsText({ pause }: HeldKey): string {
  return pause?.refusesAccepts ? "refused" : "accepted";
}

type Decision = "pause" | "refuse" | "resume";
type Decide = (
  kind: Decision,
  key: Pick<HeldKey, "endpoint" | "key">,
  /** Called once the key is paused. */
  onPaused?: () => void,
) => void;

const ACTIONS: Readonly<Record<Decision, { readonly action: string; readonly text: string }>> = {
  pause: {
    action: "Pause",
    text: "New requests with the key are accepted, and their jobs wait until it is resumed.",
  },
  refuse: {
    action: "Pause and refuse",
    text: "New requests with the key are answered 503 until it is resumed.",
  },
  resume: { action: "Resume", text: "Runners get the jobs of the key that wait, the oldest first." },
};

/** Button that pauses or resumes a listed key. */
function Button({ one, decide }: { one: HeldKey; decide: Decide }) {
  const kind = one.pause === undefined ? "pause" : "resume";
  const { action } = ACTIONS[kind];
  return (
    <button type="button" aria-label={`${action} key ${one.key}`} onClick={() => decide(kind, one)}>
      {action}
    </button>
  );
}

/** Form that pauses a key, even a key without a job. */
function PauseForm({ decide }: { decide: Decide }) {
  const { data } = useEndpoints();
  const paths = (data?.endpoints ?? []).flatMap(({ origin, path }) => (origin === "webhook" ? path : []));
  const [chosen, setChosen] = useState("");
  const [key, setKey] = useState("");
  const [kind, setKind] = useState<Decision>("pause");
  const endpoint = chosen || (paths[0] ?? "");
  if (paths.length === 0) return null;
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        decide(kind, { endpoint, key }, () => setKey(""));
      }}
    >
      <label>
        <span>Endpoint</span>
        <select value={endpoint} onChange={(event) => setChosen(event.currentTarget.value)}>
          {paths.map((path) => (
            <option key={path}>{path}</option>
          ))}
        </select>
      </label>
      <label>
        <span>Key</span>
        <input required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
      </label>
      <label>
        <span>New requests</span>
        <select
          value={kind}
          onChange={(event) => setKind(event.currentTarget.value === "refuse" ? "refuse" : "pause")}
        >
          <option value="pause">accepted</option>
          <option value="refuse">refused</option>
        </select>
      </label>
      <button type="submit">Pause key</button>
    </form>
  );
}

/** Returns a function that asks for the operator's name and reason, and then pauses or resumes a key. */
function useDecision() {
  const { run, problem } = useAction();
  const [ask, dialog] = useConfirm();
  const decide: Decide = (kind, { endpoint, key }, onPaused) => {
    const { action, text } = ACTIONS[kind];
    ask({
      ...{ title: `${action}: key ${key} of ${endpoint}?`, text, action, isSigned: true },
      onAgree: (signature) =>
        void run(async () => {
          const named = { endpoint, key, ...signature };
          if (kind !== "resume") {
            await client.pauseKey({ ...named, refuseAccepts: kind === "refuse" });
            onPaused?.();
            return "The key is paused.";
          }
          const { heldBy } = await client.resumeKey(named);
          return heldBy === 0n ? "The key is resumed." : `Dead letter ${heldBy} still holds the key up.`;
        }),
    });
  };
  return { decide, problem, dialog };
}

/** Counts of held and paused keys, with links to their list. */
function useAttention() {
  const { heldKeys = 0n, pausedKeys = 0n } = useTotals().data ?? {};
  const lines = [
    [heldKeys, "held by a dead letter"],
    [pausedKeys, "paused"],
  ] as const;
  return lines.flatMap(([count, what]) =>
    count === 0n
      ? []
      : { to: href(PATH), text: `${countText(count)} ${count === 1n ? "key" : "keys"} ${what}` },
  );
}

export const VIEW: PartView = {
  path: PATH,
  title: "Held keys",
  after: "endpoints",
  View: HeldKeys,
  useAttention,
};
