import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { momentText, spanText } from "../shared/format.js";
import { useEndpoints, useNetwork } from "./client.ts";
import { href } from "./route.ts";

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** Time since a moment, which is kept current. The title of the element is the exact moment. */
export function Ago({ time, suffix = " ago" }: { time: Timestamp | undefined; suffix?: string }) {
  const at = time === undefined ? undefined : timestampMs(time);
  const now = useNow();
  if (at === undefined) return <>–</>;
  return (
    <time dateTime={new Date(at).toISOString()} title={momentText(at)}>
      {spanText(now - at)}
      {suffix}
    </time>
  );
}

const clocks = new Set<(now: number) => void>();
setInterval(() => {
  if (!document.hidden) for (const tick of clocks) tick(Date.now());
}, SECOND_MS);

/** Returns the time, and again each second. */
function useNow(): number {
  const [now, tick] = useState(Date.now);
  useEffect(() => {
    clocks.add(tick);
    return () => void clocks.delete(tick);
  }, []);
  return now;
}

/** Identifies a job: the kind of its endpoint, its service and its job ID. */
export interface JobKey {
  readonly origin: string;
  readonly serviceId: bigint;
  readonly jobId: bigint;
}

export function jobText({ origin, serviceId, jobId }: JobKey): string {
  if (origin === "operator") return `resent job ${serviceId}/${jobId}`;
  return origin === "x402" ? `paid job ${serviceId}/${jobId}` : `webhook job ${jobId}`;
}

/** Filters that select the JobCalls of a job. */
export function jobFilters({ origin, serviceId, jobId }: JobKey) {
  return { origin, job: `${serviceId}/${jobId}` };
}

/** Reads a service and a job from a text of the address, such as `1/30`. */
export function readJob(text = ""): { readonly serviceId?: bigint; readonly jobId?: bigint } {
  const [, serviceId, jobId] = /^(\d{1,19})\/(\d{1,19})$/.exec(text) ?? [];
  return serviceId && jobId ? { serviceId: BigInt(serviceId), jobId: BigInt(jobId) } : {};
}

/** Returns the title or name of a job. If the configuration has neither, returns the job's IDs. */
export function useJobName(): (job: JobKey) => string {
  const endpoints = useEndpoints().data?.endpoints ?? [];
  const names = new Map<string, string>();
  for (const one of endpoints) {
    // The operator can send a JobCall to a job of either origin.
    const resent = jobText({ ...one, origin: "operator" });
    if (one.name && !names.has(jobText(one))) names.set(jobText(one), one.name);
    if (one.name && !names.has(resent)) names.set(resent, `${one.name}, resent`);
  }
  return (job) => names.get(jobText(job)) ?? jobText(job);
}

export function JobLink(job: JobKey) {
  const nameOf = useJobName();
  return (
    <a href={href("jobs", jobFilters(job))} title={jobText(job)}>
      {nameOf(job)}
    </a>
  );
}

export function CallLink({ callId }: { callId: bigint }) {
  return (
    <a class="mono nowrap" href={href(`calls/${callId}`)}>
      #{String(callId)}
    </a>
  );
}

/** Shortened address or hash, and all of it as title. */
export function Hex({ children: hex }: { children: string }) {
  // A cell without a value is left out on a phone.
  if (hex === "") return null;
  return (
    <span class="mono nowrap" title={hex}>
      {hex.length > 14 ? `${hex.slice(0, 8)}…${hex.slice(-4)}` : hex}
    </span>
  );
}

/** Name of a network, and its CAIP-2 ID as title. */
export function NetworkName({ network }: { network: string }) {
  const name = useNetwork(network)?.name;
  return <span title={network}>{name || network}</span>;
}

/** A transaction or an account, with a link to the network's explorer if the explorer is known. */
export function OnChain(options: {
  readonly kind: "transaction" | "account";
  readonly network: string;
  readonly children: string;
  /** True to show the whole text, as the page about the transaction or account does. */
  readonly isWhole?: boolean;
}) {
  const { kind, network, children: text, isWhole = false } = options;
  const known = useNetwork(network);
  const url = kind === "transaction" ? known?.transactionUrl : known?.accountUrl;
  const shown = isWhole ? <span class="mono">{text || "–"}</span> : <Hex>{text}</Hex>;
  if (!url || text === "") return shown;
  return (
    <a
      href={url.replace("{}", encodeURIComponent(text))}
      target="_blank"
      rel="noreferrer noopener"
      title={`At the explorer of ${known?.name}, in a new tab`}
    >
      {shown}
    </a>
  );
}

export function Badge({ stage, children }: { stage: string; children: ComponentChildren }) {
  return (
    <span class="badge" data-stage={stage}>
      {children}
    </span>
  );
}

/** Names and values, one pair a line. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
