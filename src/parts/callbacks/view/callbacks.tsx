import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Callback, CallbackState } from "../../../gen/jobgate/v1/operator_pb.ts";
import { momentText, plural } from "../../../page/shared/format.js";
import { client, useAction, useAnswer, useTotals } from "../../../page/tools/client.ts";
import { type Column, Hint, Problem, Table } from "../../../page/tools/controls.tsx";
import { Ago, Badge, CallLink, HOUR_MS, SECOND_MS } from "../../../page/tools/format.tsx";
import { Listing, readEntries, StateLinks } from "../../../page/tools/lists.tsx";
import { type Filters, href, type PartView } from "../../../page/tools/route.ts";

/** States in the address, their names, and the stage that colours them. */
const CALLBACK_STATES = {
  pending: { state: CallbackState.PENDING, name: "Pending", stage: "running" },
  sent: { state: CallbackState.SENT, name: "Sent", stage: "done" },
  dead: { state: CallbackState.DEAD, name: "Given up", stage: "dead" },
} as const;

/** Requests that notify operators and buyers of events. */
function Callbacks({ filters }: { filters: Filters }) {
  const { state = "", before } = filters;
  const answer = useAnswer(["callbacks", JSON.stringify(filters)], 10 * SECOND_MS, (options) =>
    readEntries<Callback>(before, async (page) => {
      const stateFilter =
        CALLBACK_STATES[state as keyof typeof CALLBACK_STATES]?.state ?? CallbackState.UNSPECIFIED;
      const { callbacks, nextPageToken } = await client.listCallbacks(
        { ...page, state: stateFilter },
        options,
      );
      return { items: callbacks, nextPageToken };
    }),
  );
  const { columns, problem } = useColumns();
  const { data: totals } = useTotals();
  const states = [
    { value: "", name: "All" },
    ...Object.entries(CALLBACK_STATES).map(([value, { name }]) => ({
      value,
      name,
      count: totals?.callbacks?.[value as keyof typeof CALLBACK_STATES],
    })),
  ];
  return (
    <>
      <StateLinks path="callbacks" filters={filters} states={states} />
      <Problem text={problem} />
      <Listing
        path="callbacks"
        caption="Callbacks"
        filters={filters}
        answer={answer}
        noneYet={
          <Hint>
            Nobody was called back in the last week. <code>[[callbacks]]</code> and buyers' header{" "}
            <code>Callback-URL</code> ask for it.
          </Hint>
        }
        columns={[{ label: "Call", cell: ({ callId }) => <CallLink callId={callId} /> }, ...columns]}
      />
    </>
  );
}

/** Callbacks of one call. */
function CallbackPanel({ callbacks }: { readonly callbacks: readonly Callback[] }) {
  const { columns, problem } = useColumns();
  if (callbacks.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="callbacks">
      <h2 id="callbacks">Callbacks</h2>
      <Problem text={problem} />
      <Table
        caption="Callbacks"
        items={callbacks}
        keyOf={({ id }) => String(id)}
        columns={columns}
        empty={undefined}
      />
    </section>
  );
}

/** Columns of a callback without its call, and the reason why its retry failed. */
function useColumns() {
  const { run, problem } = useAction();
  const retry = (id: bigint) =>
    void run(async () => {
      await client.retryCallback({ id });
      return `Callback ${id} is tried now.`;
    });
  const columns: Column<Callback>[] = [
    { label: "Event", class: "nowrap", cell: ({ event }) => event },
    { label: "State", cell: (callback) => <CallbackBadge {...callback} /> },
    { label: "URL", class: "wide", cell: ({ url, toBuyer }) => (toBuyer ? `${url} (buyer's)` : url) },
    { label: "Tries", class: "number", cell: ({ attempts }) => String(attempts) },
    { label: "Happened", class: "nowrap", cell: ({ happenedAt }) => <Ago time={happenedAt} /> },
    {
      label: "Next try",
      class: "nowrap",
      cell: ({ dueAt }) => (dueAt ? momentText(timestampMs(dueAt)) : "–"),
    },
    { label: "Reason", class: "wide", cell: ({ reason }) => reason },
    {
      label: "Actions",
      class: "actions",
      cell: ({ id, state }) =>
        state !== CallbackState.SENT && (
          <button type="button" aria-label={`Retry callback ${id}`} onClick={() => retry(id)}>
            Retry
          </button>
        ),
    },
  ];
  return { columns, problem };
}

function CallbackBadge({ state }: Callback) {
  const { stage = "unsure", name = "?" } =
    Object.values(CALLBACK_STATES).find((one) => one.state === state) ?? {};
  return <Badge stage={stage}>{name}</Badge>;
}

/** Age at which an unsent callback needs the operator's attention, as in the Prometheus alerts. */
const PENDING_TOO_LONG_MS = HOUR_MS;

/** Callbacks that were given up, or are pending for too long. */
function useAttention() {
  const { data: totals } = useTotals();
  const { dead = 0n, pending = 0n, oldestPendingAt } = totals?.callbacks ?? {};
  const isLate = oldestPendingAt && Date.now() - timestampMs(oldestPendingAt) > PENDING_TOO_LONG_MS;
  return [
    ...(dead > 0n
      ? [{ to: href("callbacks", { state: "dead" }), text: `${plural(Number(dead), "callback")} given up` }]
      : []),
    ...(isLate
      ? [
          {
            to: href("callbacks", { state: "pending" }),
            text: `${plural(Number(pending), "callback")} pending, the oldest for over an hour`,
          },
        ]
      : []),
  ];
}

export const VIEW: PartView = {
  path: "callbacks",
  title: "Callbacks",
  after: "dead-letters",
  View: Callbacks,
  BelowCall: CallbackPanel,
  useAttention,
};
