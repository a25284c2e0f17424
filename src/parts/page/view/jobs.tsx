import { CallState } from "../../../gen/jobgate/v1/operator_pb.ts";
import { grouped } from "../../../page/shared/format.js";
import { client, useAnswer, useEndpoints, useInfo, useTotals } from "../../../page/tools/client.ts";
import { Hint } from "../../../page/tools/controls.tsx";
import { Ago, Badge, CallLink, JobLink, OnChain, SECOND_MS } from "../../../page/tools/format.tsx";
import { FilterBar, Listing, readEntries, readFilters, StateLinks } from "../../../page/tools/lists.tsx";
import type { Filters } from "../../../page/tools/route.ts";

/** States in the address, their names, and the stage that colours them. */
const CALL_STATES = {
  ready: { state: CallState.READY, name: "Waiting", stage: "waiting" },
  leased: { state: CallState.LEASED, name: "With runners", stage: "running" },
  done: { state: CallState.DONE, name: "Done", stage: "done" },
  dead: { state: CallState.DEAD, name: "Dead", stage: "dead" },
  failed: { state: CallState.FAILED, name: "Failed", stage: "dead" },
  dropped: { state: CallState.DROPPED, name: "Dropped", stage: "dead" },
  held: { state: CallState.HELD, name: "Held", stage: "unsure" },
} as const;

export function CallBadge({ state }: { state: CallState }) {
  const known = Object.values(CALL_STATES).find((one) => one.state === state);
  return <Badge stage={known?.stage ?? "unsure"}>{known?.name ?? "?"}</Badge>;
}

/** All JobCalls, including finished JobCalls. */
export function Jobs({ filters }: { filters: Filters }) {
  const { state = "", origin = "", text = "", before } = filters;
  const { data: totals } = useTotals();
  const answer = useAnswer(["calls", JSON.stringify(filters)], 10 * SECOND_MS, (options) =>
    readEntries(before, async (page) => {
      const stateFilter = CALL_STATES[state as keyof typeof CALL_STATES]?.state ?? CallState.UNSPECIFIED;
      const request = { ...page, ...readFilters(filters), state: stateFilter, origin, text };
      const { calls, nextPageToken } = await client.listCalls(request, options);
      return { items: calls, nextPageToken };
    }),
  );
  const { ready, leased, dead, held } = totals?.calls ?? {};
  const counts: Record<string, bigint | undefined> = { ready, leased, dead, held };
  const states = [
    { value: "", name: "All" },
    ...Object.entries(CALL_STATES).map(([value, { name }]) => ({ value, name, count: counts[value] })),
  ];
  return (
    <>
      <StateLinks path="jobs" filters={filters} states={states} />
      <FilterBar path="jobs" filters={filters} />
      <Listing
        path="jobs"
        caption="Jobs"
        filters={filters}
        answer={answer}
        noneYet={<NoJobs />}
        columns={[
          { label: "Call", class: "half", cell: ({ callId }) => <CallLink callId={callId} /> },
          { label: "State", class: "half", cell: ({ state }) => <CallBadge state={state} /> },
          { label: "Job", class: "nowrap half", cell: (call) => <JobLink {...call} /> },
          {
            label: "Paid",
            class: "number half",
            cell: ({ amountText }) => amountText && <span class="amount">{grouped(amountText)}</span>,
          },
          {
            label: "Payer",
            class: "half",
            cell: ({ payer, network }) => (
              <OnChain kind="account" network={network}>
                {payer}
              </OnChain>
            ),
          },
          { label: "Runner", class: "words half spare", cell: ({ subscriber }) => subscriber },
          { label: "Attempts", class: "number half spare", cell: ({ attempts }) => attempts },
          { label: "Accepted", class: "nowrap half", cell: ({ enqueuedAt }) => <Ago time={enqueuedAt} /> },
          { label: "Reason", class: "wide", cell: ({ reason }) => reason },
        ]}
      />
    </>
  );
}

/** Empty state that shows how the first job comes. */
export function NoJobs({ origin }: { origin?: string }) {
  const { data } = useEndpoints();
  const { data: info } = useInfo();
  const endpoint = data?.endpoints.find((one) => origin === undefined || one.origin === origin);
  if (endpoint === undefined)
    return <Hint command="jobgate init">The configuration has nothing to sell.</Hint>;
  const { path, auth } = endpoint;
  if (endpoint.origin === "x402")
    return (
      <Hint command={`jobgate pay ${path} --body FILE`}>Nothing was bought yet. Buy the first job:</Hint>
    );
  const address = info?.listeners.find(({ name }) => name === "webhooks")?.address;
  const url = `http://${address}${path}`;
  const command =
    auth === "none"
      ? `curl --data hello ${url}`
      : `jobgate sign-webhook --endpoint ${path} --body FILE | curl --header @- --data-binary @FILE ${url}`;
  return <Hint command={command}>No job has come yet. Send the first one:</Hint>;
}
