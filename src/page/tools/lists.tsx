import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { countText, minuteText } from "../shared/format.js";
import { errorText, useEndpoints } from "./client.ts";
import { type Column, Hint, Table } from "./controls.tsx";
import { DAY_MS, HOUR_MS, jobFilters, jobText, readJob } from "./format.tsx";
import { type Filters, href, open } from "./route.ts";

export const PAGE_SIZE = 50;
/** Largest number of pages that one view reads. Each page reads a bounded number of entries, so a page can be short. */
const MAX_PAGES = 8;

/** Entries of a list, with the token of the older entries. */
export interface Entries<Item> {
  readonly items: readonly Item[];
  /** Token of the next page; empty at the end of the list. */
  readonly nextPageToken: string;
}

/** Reads pages until there are enough entries to show. */
export async function readEntries<Item>(
  from: string | undefined,
  ask: (page: { pageSize: number; pageToken: string }) => Promise<Entries<Item>>,
): Promise<Entries<Item>> {
  const items: Item[] = [];
  let pageToken = from ?? "";
  for (let page = 0; page < MAX_PAGES && items.length < PAGE_SIZE; page++) {
    const entries = await ask({ pageSize: PAGE_SIZE - items.length, pageToken });
    items.push(...entries.items);
    pageToken = entries.nextPageToken;
    if (pageToken === "") break;
  }
  return { items, nextPageToken: pageToken };
}

/** A list that filters select, with links to older entries. */
export function Listing<
  Item extends { readonly id: bigint | string } | { readonly callId: bigint },
>(options: {
  readonly path: string;
  readonly caption: string;
  readonly filters: Filters;
  readonly answer: { readonly data: Entries<Item> | undefined; readonly error: Error | null };
  readonly columns: readonly Column<Item>[];
  /** Shown while nothing is listed and nothing filters. */
  readonly noneYet: ComponentChildren;
}) {
  const { path, caption, filters, columns, noneYet } = options;
  const keyOf = (item: Item) => String("id" in item ? item.id : item.callId);
  const { data: entries, error } = options.answer;
  const isSearching = entries?.items.length === 0 && entries.nextPageToken !== "";
  const isFiltered = Object.values(filters).some(Boolean);
  return (
    <section class="panel" aria-label={caption}>
      {entries === undefined && error !== null ? (
        <p class="problem">{errorText(error)}</p>
      ) : (
        !isSearching && (
          <Table
            caption={caption}
            items={entries?.items}
            keyOf={keyOf}
            columns={columns}
            empty={isFiltered ? <Hint>Nothing matches.</Hint> : noneYet}
          />
        )
      )}
      <Pager path={path} filters={filters} entries={entries} />
    </section>
  );
}

/** Links to the newest entries and to the next older entries. */
export function Pager(options: {
  readonly path: string;
  readonly filters: Filters;
  readonly entries: Entries<unknown> | undefined;
}) {
  const { path, filters, entries } = options;
  const isSearching = entries?.items.length === 0 && entries.nextPageToken !== "";
  return (
    <nav class="pager" aria-label="Pages">
      {filters.before && <a href={href(path, { ...filters, before: undefined })}>← Newest</a>}
      {entries?.nextPageToken && (
        <a href={href(path, { ...filters, before: entries.nextPageToken })}>
          {isSearching ? "None so far: search older ones →" : "Older →"}
        </a>
      )}
    </nav>
  );
}

/** Links that select one state, each with the number of entries if it is known. */
export function StateLinks(options: {
  readonly path: string;
  readonly filters: Filters;
  readonly states: readonly {
    readonly value: string;
    readonly name: string;
    readonly count?: bigint | undefined;
  }[];
}) {
  const { path, filters, states } = options;
  return (
    <nav class="chips" aria-label="State">
      {states.map(({ value, name, count }) => (
        <a
          key={value}
          href={href(path, { ...filters, state: value, before: undefined })}
          aria-current={(filters.state ?? "") === value ? "true" : undefined}
        >
          {name} {count !== undefined && count > 0n && <span class="count">{countText(count)}</span>}
        </a>
      ))}
    </nav>
  );
}

const PERIODS = {
  "1h": { name: "Last hour", ms: HOUR_MS },
  "24h": { name: "Last 24 hours", ms: DAY_MS },
  "7d": { name: "Last 7 days", ms: 7 * DAY_MS },
  "30d": { name: "Last 30 days", ms: 30 * DAY_MS },
} as const;

/** Reads a period such as `24h`, or a moment. */
function readTime(text = ""): Timestamp | undefined {
  if (text === "") return undefined;
  const periodMs = PERIODS[text as keyof typeof PERIODS]?.ms;
  const at = periodMs === undefined ? Date.parse(text) : Date.now() - periodMs;
  return Number.isNaN(at) ? undefined : timestampFromDate(new Date(at));
}

/**
 * Filters of a list, which live in the address. `origin` leaves only the jobs of one kind of endpoint; `hasTime: false` is for
 * a list that no time filters.
 */
export function FilterBar(options: {
  readonly path: string;
  readonly filters: Filters;
  readonly origin?: string;
  readonly hasTime?: boolean;
}) {
  const { path, filters, origin, hasTime = true } = options;
  const { data } = useEndpoints();
  const endpoints = data?.endpoints.filter((one) => origin === undefined || one.origin === origin) ?? [];
  const { state, since = "", until, payer = "", text = "" } = filters;
  const job = filters.job ? `${filters.origin ?? origin} ${filters.job}` : "";
  const jobs = new Map([["", "All jobs"]]);
  if (job !== "") jobs.set(job, job);
  for (const one of endpoints) {
    const { origin, job } = jobFilters(one);
    jobs.set(`${origin} ${job}`, one.name === "" ? jobText(one) : `${one.name} (${jobText(one)})`);
  }
  const periods = new Map([
    ["", "Any time"],
    ...Object.entries(PERIODS).map(([value, { name }]) => [value, name] as const),
  ]);
  if (!periods.has(since)) periods.set(since, `Since ${minuteText(Date.parse(since))}`);
  const apply = (form: HTMLFormElement) => {
    const entered = Object.fromEntries(new FormData(form)) as Record<string, string>;
    const [origin = "", job = ""] = (entered.picked ?? "").split(" ");
    open(path, {
      state,
      since: entered.since,
      until,
      payer: entered.payer?.trim(),
      text: entered.text?.trim(),
      origin,
      job,
    });
  };
  const isFiltered = [job, since, until, payer, text].some(Boolean);
  const form = (
    <form
      class="filters"
      onChange={(event) => apply(event.currentTarget)}
      onSubmit={(event) => event.preventDefault()}
    >
      <label>
        <span>Job</span>
        <Select name="picked" value={job} options={jobs} />
      </label>
      {hasTime && (
        <label>
          <span>Time</span>
          <Select name="since" value={since} options={periods} />
        </label>
      )}
      {until && <span class="muted">until {minuteText(Date.parse(until))}</span>}
      <label>
        <span>Payer</span>
        <TextInput name="payer" value={payer} placeholder="0x…" />
      </label>
      {path === "jobs" && (
        <label>
          <span>Text in metadata</span>
          <TextInput name="text" value={text} placeholder="header, id …" />
        </label>
      )}
      {isFiltered && <a href={href(path, { state })}>Clear filters</a>}
    </form>
  );
  return (
    <details class="filter-box" open={useHasRoom() || isFiltered}>
      <summary>Filters</summary>
      {form}
    </details>
  );
}

const NARROW = matchMedia("(max-width: 820px)");

/** Checks whether the window is wide, as the style sheet does. */
function useHasRoom(): boolean {
  const [isNarrow, set] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => set(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return !isNarrow;
}

function TextInput({ value, ...props }: { name: string; value: string; placeholder: string }) {
  const input = useRef<HTMLInputElement>(null);
  // Text that is being typed is replaced only if the address changes.
  useEffect(() => {
    if (input.current) input.current.value = value;
  }, [value]);
  return <input {...props} ref={input} type="search" maxLength={200} spellcheck={false} />;
}

function Select(props: { name: string; value: string; options: ReadonlyMap<string, string> }) {
  return (
    <select name={props.name} value={props.value}>
      {[...props.options].map(([value, name]) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </select>
  );
}

/** Reads the filters that all lists have. */
export function readFilters({ payer = "", job, since, until }: Filters) {
  const from = readTime(since);
  const to = readTime(until);
  return { payer, ...readJob(job), ...(from && { since: from }), ...(to && { until: to }) };
}
