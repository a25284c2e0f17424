import type { RefusedPayment } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, plural } from "../../../page/shared/format.js";
import { client, useAnswer } from "../../../page/tools/client.ts";
import { Hint, Table } from "../../../page/tools/controls.tsx";
import { Ago, JobLink, MINUTE_MS, OnChain, SECOND_MS } from "../../../page/tools/format.tsx";
import { FilterBar, Listing, readEntries, readFilters } from "../../../page/tools/lists.tsx";
import { type Filters, href } from "../../../page/tools/route.ts";

/**
 * Refused payments of the last week by job, code and reason. They are queried seldom, because the store counts up to 100,000.
 */
function ByReason() {
  const { data } = useAnswer(["refused", "counts"], MINUTE_MS, (options) =>
    client.countRefusedPayments({}, options),
  );
  if (data === undefined || data.counts.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="by-reason">
      <h2 id="by-reason">{plural(Number(data.total), "refused payment")} in the last week, by reason</h2>
      <Table
        caption="Refused payments by job, code and reason"
        items={data.counts}
        keyOf={({ serviceId, jobIndex, code, reason }) => `${serviceId}/${jobIndex} ${code} ${reason}`}
        empty={null}
        columns={[
          {
            label: "Count",
            class: "number",
            cell: ({ count, serviceId, jobIndex, code }) => (
              <a
                href={href("payments", {
                  state: "refused",
                  origin: "x402",
                  job: `${serviceId}/${jobIndex}`,
                  code,
                })}
              >
                {countText(count)}
              </a>
            ),
          },
          {
            label: "Job",
            class: "nowrap",
            cell: ({ serviceId, jobIndex }) => (
              <JobLink origin="x402" serviceId={serviceId} jobId={BigInt(jobIndex)} />
            ),
          },
          { label: "Code", class: "nowrap", cell: ({ code }) => code },
          { label: "Newest", class: "nowrap", cell: ({ newestRefusedAt }) => <Ago time={newestRefusedAt} /> },
          { label: "Reason", class: "wide", cell: ({ reason }) => reason || "–" },
        ]}
      />
    </section>
  );
}

/** Requests whose payments bought nothing, and why. */
export function RefusedPayments({ filters }: { filters: Filters }) {
  const { before, code = "", request = "" } = filters;
  const answer = useAnswer(["refused", JSON.stringify(filters)], 10 * SECOND_MS, (options) => {
    const { jobId, serviceId, payer } = readFilters(filters);
    const job = jobId === undefined ? {} : { jobIndex: Number(jobId) };
    const service = serviceId === undefined ? {} : { serviceId };
    return readEntries<RefusedPayment>(before, async (page) => {
      const asked = { ...page, ...job, ...service, payer: payer ?? "", code, requestId: request };
      const { refusedPayments, nextPageToken } = await client.listRefusedPayments(asked, options);
      return { items: refusedPayments, nextPageToken };
    });
  });
  return (
    <>
      <ByReason />
      <FilterBar path="payments" filters={filters} origin="x402" hasTime={false} />
      {request && (
        <p class="muted">
          Only request {request}. <a href={href("payments", { state: "refused" })}>All requests</a>
        </p>
      )}
      <Listing
        path="payments"
        caption="Refused payments"
        filters={filters}
        answer={answer}
        noneYet={<Hint>No payment was refused in the last week.</Hint>}
        columns={[
          { label: "Refused", class: "nowrap", cell: ({ refusedAt }) => <Ago time={refusedAt} /> },
          { label: "Request", class: "nowrap", cell: ({ requestId }) => requestId },
          {
            label: "Job",
            class: "nowrap",
            cell: ({ serviceId, jobIndex }) => (
              <JobLink origin="x402" serviceId={serviceId} jobId={BigInt(jobIndex)} />
            ),
          },
          { label: "Code", class: "nowrap", cell: ({ code }) => code },
          {
            label: "Payer",
            cell: ({ payer, network }) => (
              <OnChain kind="account" network={network}>
                {payer}
              </OnChain>
            ),
          },
          { label: "Reason", class: "wide", cell: ({ reason, message }) => reason || message },
        ]}
      />
    </>
  );
}
