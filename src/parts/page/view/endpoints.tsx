import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Endpoint, Endpoint_Times } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, exactAmount, grouped } from "../../../page/shared/format.js";
import { useEndpoints } from "../../../page/tools/client.ts";
import { type Column, Hint, Table } from "../../../page/tools/controls.tsx";
import { jobFilters, jobText } from "../../../page/tools/format.tsx";
import { href } from "../../../page/tools/route.ts";
import { PART_VIEWS } from "./part-views.ts";

/** Paid jobs and webhooks, with the outcomes of the requests since the start. */
export function Endpoints() {
  const { data } = useEndpoints();
  return (
    <section class="panel" aria-label="Endpoints">
      <p class="muted">Counts begin at the start of this process.</p>
      <Table
        caption="Endpoints"
        items={data?.endpoints}
        keyOf={(endpoint) => `${endpoint.origin} ${endpoint.path}`}
        empty={<Hint command="jobgate init">There is no job for sale and no webhook endpoint.</Hint>}
        columns={[
          { label: "Endpoint", class: "wide", cell: (endpoint) => <Name {...endpoint} /> },
          { label: "Price", class: "nowrap", cell: (endpoint) => <Price {...endpoint} /> },
          { label: "Auth", cell: ({ origin, auth }) => auth || (origin === "x402" ? "anyone" : "none") },
          {
            label: "Offers (402)",
            class: "number",
            cell: ({ origin, offers }) => (origin === "x402" ? countText(offers) : "–"),
          },
          {
            label: "Accepted",
            class: "number",
            cell: (endpoint) => (
              <a href={href("jobs", jobFilters(endpoint))}>{countText(endpoint.accepted)}</a>
            ),
          },
          { label: "Conversion", class: "number", cell: conversion },
          ...(data?.endpoints.some(isMeasured) ? MEASURED : []),
          ...(data?.endpoints.some(({ access }) => access.length > 0) ? [ACCESS] : []),
          { label: "Refused", cell: (endpoint) => <Refusals {...endpoint} /> },
        ]}
      />
    </section>
  );
}

function Name({ name, path, description, ...job }: Endpoint) {
  return (
    <>
      <strong>{name || jobText(job)}</strong> <span class="muted nowrap">{name && jobText(job)}</span>{" "}
      {PART_VIEWS.map(({ path: view, OfJob }) => OfJob && <OfJob key={view} jobId={job.jobId} />)}
      <br />
      <span class="mono">{path}</span>
      {description && <span class="muted block">{description}</span>}
    </>
  );
}

function Price({ origin, price, amounts }: Endpoint) {
  if (origin !== "x402") return <>–</>;
  return (
    <>
      <strong title={price}>{wholePrice(price) || "not known now"}</strong>
      {amounts.map((amount) => (
        <span class="muted block" key={amount}>
          {grouped(amount)}
        </span>
      ))}
    </>
  );
}

const NATIVE_DECIMALS = 18;

/** Converts a price in wei to whole units of the network's own coin, and returns any other price unchanged. */
function wholePrice(price: string): string {
  const [, wei] = /^(\d+) wei$/.exec(price) ?? [];
  return wei === undefined ? price : `${exactAmount(BigInt(wei), NATIVE_DECIMALS)} native`;
}

const isMeasured = ({ apiCalls, answerTimes }: Endpoint) => apiCalls.length > 0 || answerTimes !== undefined;

/** Columns for jobs of an API, and for jobs whose buyers wait for the result. */
const MEASURED: readonly Column<Endpoint>[] = [
  { label: "Calls of the API", cell: ({ apiCalls }) => <Counts counts={apiCalls} /> },
  { label: "API, p50 / p95", class: "nowrap", cell: ({ apiTimes }) => timesText(apiTimes) },
  { label: "Answer, p50 / p95", class: "nowrap", cell: ({ answerTimes }) => timesText(answerTimes) },
];

/** Requests of clients that the seller knows. */
const ACCESS: Column<Endpoint> = {
  label: "Without payment",
  cell: ({ access }) => (
    <Counts counts={access.map((one) => ({ outcome: accessText(one), count: one.count }))} />
  ),
};

function accessText({ by, name }: Endpoint["access"][number]): string {
  return by === "payment" ? "earlier payers" : name;
}

/** Share of the offers that were paid. */
function conversion({ origin, offers, accepted }: Endpoint): string {
  if (origin !== "x402" || offers === 0n) return "–";
  return `${((100 * Number(accepted)) / Number(offers)).toFixed(1)} %`;
}

function Refusals({ refusals }: Endpoint) {
  if (refusals.length === 0) return <>none</>;
  return <Counts counts={refusals.map(({ code, count }) => ({ outcome: code, count }))} />;
}

function Counts({ counts }: { counts: readonly { readonly outcome: string; readonly count: bigint }[] }) {
  if (counts.length === 0) return <>–</>;
  return (
    <ul class="lines">
      {counts.map(({ outcome, count }) => (
        <li key={outcome}>
          {countText(count)} <code>{outcome}</code>
        </li>
      ))}
    </ul>
  );
}

function timesText(times: Endpoint_Times | undefined): string {
  if (times === undefined) return "–";
  return [times.p50, times.p95].map((time) => `${time ? durationMs(time) : 0} ms`).join(" / ");
}
