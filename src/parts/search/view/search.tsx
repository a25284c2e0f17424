import { useEffect, useRef } from "preact/hooks";
import { CallState, SearchKind, type SearchResult } from "../../../gen/jobgate/v1/operator_pb.ts";
import { plural } from "../../../page/shared/format.js";
import { client, errorText, useAnswer } from "../../../page/tools/client.ts";
import { type Column, Hint, Table } from "../../../page/tools/controls.tsx";
import { Ago, Badge, JobLink, jobFilters, MINUTE_MS } from "../../../page/tools/format.tsx";
import { type Filters, href, open, type PartView, useRoute } from "../../../page/tools/route.ts";

/** Headings of the kinds, in the order in which they are shown. */
const KINDS: ReadonlyMap<SearchKind, string> = new Map([
  [SearchKind.CALL, "Calls"],
  [SearchKind.TRANSACTION, "Transactions"],
  [SearchKind.PAYER, "Payers"],
  [SearchKind.PAYMENT_ID, "Payment IDs"],
  [SearchKind.REQUEST, "Refused requests"],
  [SearchKind.JOB, "Jobs"],
  [SearchKind.DEAD_LETTERS, "Dead letters"],
  [SearchKind.METADATA, "Metadata"],
  [SearchKind.ORDER_KEY, "Order keys"],
]);

/** Names of the states of calls, and the stages that colour them. */
const STATES: Readonly<Record<CallState, readonly [name: string, stage: string]>> = {
  [CallState.UNSPECIFIED]: ["Never queued", "unsure"],
  [CallState.HELD]: ["Held", "unsure"],
  [CallState.READY]: ["Waiting", "waiting"],
  [CallState.LEASED]: ["With runners", "running"],
  [CallState.DONE]: ["Done", "done"],
  [CallState.DEAD]: ["Dead", "dead"],
  [CallState.DROPPED]: ["Dropped", "dead"],
  [CallState.FAILED]: ["Failed", "dead"],
};

/** Search field, which every view has. */
function SearchField() {
  const { path, filters } = useRoute();
  const text = path[0] === "search" ? (filters.text ?? "") : "";
  const input = useRef<HTMLInputElement>(null);
  // Only a change of the address replaces text that the operator is typing.
  useEffect(() => {
    if (input.current) input.current.value = text;
  }, [text]);
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        open("search", { text: input.current?.value.trim() });
      }}
    >
      <label>
        <span class="unseen">Search</span>
        <input ref={input} type="search" placeholder="Search …" maxLength={200} spellcheck={false} />
      </label>
    </form>
  );
}

/** Search results by kind. */
function Search({ filters }: { filters: Filters }) {
  const { text = "" } = filters;
  const { data, error } = useAnswer(["search", text], MINUTE_MS, (options) =>
    client.search({ text }, options),
  );
  if (text === "")
    return (
      <section class="panel">
        <Hint>
          Search by the beginning of a call's number, a transaction, a payer, a payment ID, the ID of a
          refused request, a value of metadata or an order key; or by any part of a job's name or of a dead
          letter's reason.
        </Hint>
      </section>
    );
  if (error !== null) return <p class="panel problem">{errorText(error)}</p>;
  if (data === undefined) return <p class="empty">…</p>;
  const { results, more, isIncomplete } = data;
  return (
    <>
      {isIncomplete && (
        <p class="notice" role="status">
          The index of the search does not have all calls yet. Try again in a few minutes.
        </p>
      )}
      {results.length === 0 && <p class="panel empty">Nothing begins with “{text}”.</p>}
      {[...KINDS].map(([kind, heading]) => (
        <Group
          key={kind}
          heading={heading}
          items={results.filter((result) => result.kind === kind)}
          hasMore={more.includes(kind)}
        />
      ))}
    </>
  );
}

function Group(options: {
  readonly heading: string;
  readonly items: readonly SearchResult[];
  readonly hasMore: boolean;
}) {
  const { heading, items, hasMore } = options;
  const id = `found-${heading.toLowerCase().replaceAll(" ", "-")}`;
  if (items.length === 0) return null;
  return (
    <section class="panel" aria-labelledby={id}>
      <h2 id={id}>{heading}</h2>
      <Table caption={heading} items={items} keyOf={keyOf} columns={columnsOf(items)} empty={undefined} />
      {hasMore && <p class="muted">There are more: search for a longer text.</p>}
    </section>
  );
}

const COLUMNS: readonly Column<SearchResult>[] = [
  {
    label: "Found",
    class: "wide",
    cell: (result) => (
      <>
        {result.name !== "" && <span class="muted">{result.name}: </span>}
        <a class="mono" href={hrefOf(result)}>
          {result.kind === SearchKind.CALL ? `#${result.value}` : result.value}
        </a>
      </>
    ),
  },
  {
    label: "Call",
    class: "nowrap",
    cell: ({ callId }) => (callId === undefined ? "" : `#${callId}`),
  },
  { label: "Job", cell: (result) => result.origin !== "" && <JobLink {...result} /> },
  { label: "State", cell: (result) => <State {...result} /> },
  { label: "When", class: "nowrap", cell: ({ at }) => at && <Ago time={at} /> },
];

/** Returns the columns of a kind. Results that are calls have no column for the call. */
const columnsOf = ([first]: readonly SearchResult[]) =>
  first?.kind === SearchKind.CALL ? COLUMNS.filter(({ label }) => label !== "Call") : COLUMNS;

function State({ kind, callId, state, code, count }: SearchResult) {
  if (kind === SearchKind.ORDER_KEY) return null;
  if (code !== "") return <>{code}</>;
  if (count > 0n) return <>{plural(Number(count), "dead letter")}</>;
  if (callId === undefined) return null;
  const [name, stage] = STATES[state] ?? ["?", "unsure"];
  return <Badge stage={stage}>{name}</Badge>;
}

/** Address of the view that shows a result. */
function hrefOf({ kind, callId, value, ...job }: SearchResult): string {
  if (callId !== undefined) return href(`calls/${callId}`);
  if (kind === SearchKind.PAYER) return href("payments", { payer: value });
  if (kind === SearchKind.REQUEST) return href("payments", { state: "refused", request: value });
  if (kind === SearchKind.ORDER_KEY) return href("held-keys");
  const filters = jobFilters(job);
  return kind === SearchKind.JOB
    ? href("jobs", filters)
    : href("dead-letters", { ...filters, reason: value });
}

function keyOf({ kind, value, name, callId, serviceId, jobId }: SearchResult): string {
  return [kind, callId, serviceId, jobId, name, value].join(" ");
}

export const VIEW: PartView = {
  path: "search",
  title: "Search",
  after: "",
  View: Search,
  Anywhere: SearchField,
};
