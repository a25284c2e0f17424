import type { RefusedPayment } from "../../../gen/jobgate/v1/operator_pb.ts";
import { client, useAnswer } from "../../../page/tools/client.ts";
import { Hint } from "../../../page/tools/controls.tsx";
import { Ago, Hex, JobLink, SECOND_MS } from "../../../page/tools/format.tsx";
import { FilterBar, Listing, readEntries, readFilters } from "../../../page/tools/lists.tsx";
import type { Filters } from "../../../page/tools/route.ts";

/** Requests whose payments bought nothing, and why. */
export function RefusedPayments({ filters }: { filters: Filters }) {
  const { before } = filters;
  const answer = useAnswer(["refused", JSON.stringify(filters)], 10 * SECOND_MS, (options) => {
    const { jobId, serviceId, payer } = readFilters(filters);
    const job = jobId === undefined ? {} : { jobIndex: Number(jobId) };
    const service = serviceId === undefined ? {} : { serviceId };
    return readEntries<RefusedPayment>(before, async (page) => {
      const asked = { ...page, ...job, ...service, payer: payer ?? "" };
      const { refusedPayments, nextPageToken } = await client.listRefusedPayments(asked, options);
      return { items: refusedPayments, nextPageToken };
    });
  });
  return (
    <>
      <FilterBar path="payments" filters={filters} origin="x402" hasTime={false} />
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
          { label: "Payer", cell: ({ payer }) => <Hex>{payer}</Hex> },
          { label: "Reason", class: "wide", cell: ({ reason, message }) => reason || message },
        ]}
      />
    </>
  );
}
