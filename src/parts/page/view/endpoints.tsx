import type { Endpoint } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText } from "../../../page/shared/format.js";
import { useEndpoints } from "./client.ts";
import { Hint, Table } from "./controls.tsx";
import { jobFilters, jobText } from "./format.tsx";
import { href } from "./route.ts";

/** Paid jobs and webhooks, with what became of the requests since the start. */
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
          { label: "Refused", cell: (endpoint) => <Refusals {...endpoint} /> },
        ]}
      />
    </section>
  );
}

function Name({ name, path, description, ...job }: Endpoint) {
  return (
    <>
      <strong>{name || jobText(job)}</strong> <span class="muted nowrap">{name && jobText(job)}</span>
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
      <strong>{price || "not known now"}</strong>
      {amounts.map((amount) => (
        <span class="muted block" key={amount}>
          {amount}
        </span>
      ))}
    </>
  );
}

/** Share of the offers that were paid. */
function conversion({ origin, offers, accepted }: Endpoint): string {
  if (origin !== "x402" || offers === 0n) return "–";
  return `${((100 * Number(accepted)) / Number(offers)).toFixed(1)} %`;
}

function Refusals({ refusals }: Endpoint) {
  if (refusals.length === 0) return <>none</>;
  return (
    <ul class="lines">
      {refusals.map(({ code, count }) => (
        <li key={code}>
          {countText(count)} <code>{code}</code>
        </li>
      ))}
    </ul>
  );
}
