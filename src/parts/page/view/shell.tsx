import { Code } from "@connectrpc/connect";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Event } from "../../../gen/jobgate/v1/operator_pb.ts";
import { announce, announceEvent } from "../../../page/shared/announce.js";
import { countText } from "../../../page/shared/format.js";
import {
  errorText,
  hasCode,
  isUnreachable,
  queries,
  session,
  useInfo,
  useTotals,
} from "../../../page/tools/client.ts";
import { ThemeButton } from "../../../page/tools/controls.tsx";
import { Ago } from "../../../page/tools/format.tsx";
import { type Filters, href, useRoute } from "../../../page/tools/route.ts";
import { CallPage } from "./call.tsx";
import { DeadLetters } from "./dead-letters.tsx";
import { Endpoints } from "./endpoints.tsx";
import { announcementOf, Flow, partEvent } from "./events.ts";
import { Jobs } from "./jobs.tsx";
import { Overview } from "./overview.tsx";
import { PART_VIEWS, withPartViews } from "./part-views.ts";
import { Payments } from "./payments.tsx";
import { Settings } from "./settings.tsx";
import { followTail } from "./tail.ts";

const VIEWS = withPartViews({
  "": "Overview",
  jobs: "Jobs",
  payments: "Payments",
  "dead-letters": "Dead letters",
  endpoints: "Endpoints",
  settings: "Settings",
});

/** The page around each view: navigation, connection and errors. `onEnd` logs out with a reason. */
export function Shell({ onEnd }: { onEnd: (problem: string) => void }) {
  const {
    path: [view = "", item = ""],
    filters,
  } = useRoute();
  const { data: info } = useInfo();
  const { data: totals } = useTotals();
  const [token] = useState(session.token);
  const wasIn = useRef(false);
  wasIn.current ||= info !== undefined;
  const onRefused = () => {
    if (wasIn.current) onEnd("jobgate does not take this token any more.");
    else onEnd(token === undefined ? "" : "That is not the token. Try again.");
  };
  const [flow] = useState(() => new Flow());
  const isStreaming = useEvents(flow, onRefused);
  const failures = useFailures(onRefused);
  const problems = [...new Set(failures.map(errorText))].join(" ");
  const main = useRef<HTMLElement>(null);
  const nav = useRef<HTMLElement>(null);
  const title = view === "calls" ? `Call ${item}` : (VIEWS[view] ?? "Not found");
  const shown = useRef(title);
  useEffect(() => {
    document.title = `${title} · jobgate`;
    // A link led to another view, which comes next for keyboards and screen readers.
    if (shown.current !== title) main.current?.focus();
    shown.current = title;
    // On a phone, the menu may be scrolled past the view.
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [title]);

  if (info === undefined) {
    return (
      <main>
        {problems !== "" && (
          <p class="notice" role="status">
            {problems} Trying again …
          </p>
        )}
      </main>
    );
  }
  const dead = totals?.calls?.dead ?? 0n;
  return (
    <div class="shell" data-stale={failures.length > 0}>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="side">
        <p class="brand">
          <img src="page/shared/icon.svg" alt="" width="24" height="24" /> jobgate{" "}
          <span class="muted">{info.version}</span>
        </p>
        {PART_VIEWS.map(({ path, Anywhere }) => Anywhere && <Anywhere key={path} />)}
        <nav aria-label="Views" ref={nav}>
          {Object.entries(VIEWS).map(([path, name]) => (
            <a key={path} href={href(path)} aria-current={path === view ? "page" : undefined}>
              {name}
              {path === "dead-letters" && dead > 0n && <span class="count bad">{countText(dead)}</span>}
            </a>
          ))}
        </nav>
        <div class="tools">
          <ThemeButton />
          {token !== undefined && (
            <button type="button" onClick={() => onEnd("")}>
              Log out
            </button>
          )}
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <div class="view-head">
          <h1 tabIndex={-1}>{title}</h1>
          <p class="pills">
            <Connection failures={failures} isStreaming={isStreaming} />
            {info.store && <StorePill {...info.store} />}
            <span class="muted">
              up <Ago time={info.startedAt} suffix="" />
            </span>
          </p>
        </div>
        <p id="problem" class="notice problem" role="alert" hidden={problems === ""}>
          {problems && `${problems} What is shown may be out of date.`}
        </p>
        {PART_VIEWS.map(({ path, Banner }) => Banner && <Banner key={path} />)}
        {contentOf(view, item, filters, flow)}
      </main>
    </div>
  );
}

function contentOf(view: string, item: string, filters: Filters, flow: Flow) {
  switch (view) {
    case "":
      return <Overview flow={flow} filters={filters} />;
    case "jobs":
      return <Jobs filters={filters} />;
    case "calls":
      return <CallPage key={item} callId={item} />;
    case "payments":
      return <Payments filters={filters} />;
    case "dead-letters":
      return <DeadLetters filters={filters} />;
    case "endpoints":
      return <Endpoints />;
    case "settings":
      return <Settings />;
  }
  const { View } = PART_VIEWS.find(({ path }) => path === view) ?? {};
  return View ? <View filters={filters} /> : <p class="panel">There is no such view.</p>;
}

function Connection({ failures, isStreaming }: { failures: readonly Error[]; isStreaming: boolean }) {
  const [tone, text] = failures.some(isUnreachable)
    ? ["bad", "Not reachable"]
    : failures.length > 0
      ? ["bad", "Failing"]
      : isStreaming
        ? ["good", "Live"]
        : ["warn", "Polling"];
  const before = useRef(tone);
  useEffect(() => {
    // Failures are announced by their line, an ARIA alert.
    if (before.current === "bad" && tone !== "bad") announce(`${text}.`);
    before.current = tone;
  }, [tone]);
  return <Pill tone={tone}>{text}</Pill>;
}

function StorePill({ writable, full, reason }: { writable: boolean; full: boolean; reason: string }) {
  if (!writable) return <Pill tone="bad">Store not writable: {reason}</Pill>;
  return full ? <Pill tone="warn">Queue full</Pill> : <Pill tone="good">Store writable</Pill>;
}

function Pill({ tone, children }: { tone: string | undefined; children: ComponentChildren }) {
  return (
    <span class="pill" data-tone={tone}>
      {children}
    </span>
  );
}

/** Errors of the queries that failed at their last run, unless no view uses them any more. */
function useFailures(onRefused: () => void): readonly Error[] {
  const [failures, setFailures] = useState<ReadonlyMap<string, Error>>(new Map());
  useEffect(
    () =>
      queries.getQueryCache().subscribe(({ type, query, ...event }) => {
        const action = "action" in event ? event.action : undefined;
        if (action?.type === "error") {
          const { error } = action;
          if (hasCode(error, Code.Unauthenticated)) return onRefused();
          // The failed list itself shows what is wrong with its filters.
          if (hasCode(error, Code.InvalidArgument)) return;
          setFailures((known) => new Map(known).set(query.queryHash, error));
        } else if (
          action?.type === "success" ||
          type === "removed" ||
          (type === "observerRemoved" && !query.isActive())
        ) {
          setFailures((known) => {
            if (!known.has(query.queryHash)) return known;
            const left = new Map(known);
            left.delete(query.queryHash);
            return left;
          });
        }
      }),
    [],
  );
  return [...failures.values()];
}

/** Shortest time between two rounds of queries that events cause. */
const REFRESH_MS = 300;
/** Largest share of the time that queries take. Slow queries run less often. */
const MAX_SHARE = 1 / 10;

/** Adds events to the flow, repeats the queries that the events change, and returns true while events arrive. */
function useEvents(flow: Flow, onRefused: () => void): boolean {
  const [isStreaming, setStreaming] = useState(false);
  useEffect(() => {
    const closed = new AbortController();
    const refresh = refresher();
    void followTail({
      signal: closed.signal,
      onOpen: setStreaming,
      onError: (error) => hasCode(error, Code.Unauthenticated) && onRefused(),
      onMessage({ event, missed }, isPast) {
        if (event !== undefined) flow.add(event);
        flow.missed += Number(missed);
        if (event === undefined || isPast) return;
        const text = announcementOf(event);
        if (text !== undefined) announceEvent(text);
        refresh(["totals", "calls", "call", ...topicsOf(event)]);
      },
    });
    return () => closed.abort();
  }, []);
  return isStreaming;
}

/**
 * First parts of query keys, by kind of event. An event changes the answers of these queries, and of the queries that
 * every event changes.
 */
const TOPICS: Readonly<Record<string, readonly string[]>> = {
  delivered: ["runners"],
  acked: ["runners"],
  paymentDecided: ["payments", "revenue"],
  deadLettered: ["dead-letters", "runners"],
  dropped: ["dead-letters"],
  retried: ["dead-letters", "runners"],
};

function topicsOf(event: Event): readonly string[] {
  const { topic } = partEvent(event) ?? {};
  return topic === undefined ? (TOPICS[event.what.case ?? ""] ?? []) : [topic];
}

/** Returns a function that repeats queries, soon and together. */
function refresher(): (topics: readonly string[]) => void {
  const due = new Set<string>();
  let isDue = false;
  async function ask(): Promise<void> {
    const startedAt = performance.now();
    const topics = new Set(due);
    due.clear();
    await queries.invalidateQueries({ predicate: ({ queryKey: [topic] }) => topics.has(String(topic)) });
    const tookMs = performance.now() - startedAt;
    setTimeout(next, Math.max(REFRESH_MS, tookMs / MAX_SHARE));
  }
  function next(): void {
    isDue = due.size > 0;
    if (isDue) void ask();
  }
  return (topics) => {
    for (const topic of topics) due.add(topic);
    if (isDue) return;
    isDue = true;
    setTimeout(ask, REFRESH_MS);
  };
}
