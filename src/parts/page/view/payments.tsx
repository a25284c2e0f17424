import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { CallOptions } from "@connectrpc/connect";
import {
  type ListPaymentsRequestSchema,
  type Payment,
  PaymentState,
} from "../../../gen/jobgate/v1/operator_pb.ts";
import { grouped } from "../../../page/shared/format.js";
import { client, useAnswer, useTotals } from "../../../page/tools/client.ts";
import {
  Ago,
  Badge,
  CallLink,
  JobLink,
  MINUTE_MS,
  NetworkName,
  OnChain,
  SECOND_MS,
} from "../../../page/tools/format.tsx";
import {
  type Entries,
  FilterBar,
  Listing,
  PAGE_SIZE,
  readEntries,
  readFilters,
  StateLinks,
} from "../../../page/tools/lists.tsx";
import type { Filters } from "../../../page/tools/route.ts";
import { NoJobs } from "./jobs.tsx";
import { PART_VIEWS } from "./part-views.ts";
import { RefusedPayments } from "./refused-payments.tsx";

/** Age at which an operator should look at an undecided payment, because a decision usually takes seconds. */
const UNDECIDED_TOO_LONG_MS = 5 * MINUTE_MS;

/** States in the address, their names, and the stage that colours them. */
const PAYMENT_STATES = {
  intent: { state: PaymentState.INTENT, name: "Being decided", stage: "running" },
  authorized: { state: PaymentState.AUTHORIZED, name: "Authorized", stage: "waiting" },
  settling: { state: PaymentState.SETTLING, name: "Being charged", stage: "running" },
  settled: { state: PaymentState.SETTLED, name: "Settled", stage: "done" },
  failed: { state: PaymentState.FAILED, name: "Not paid", stage: "dead" },
  released: { state: PaymentState.RELEASED, name: "Not charged", stage: "done" },
  unresolved: { state: PaymentState.UNRESOLVED, name: "Unresolved", stage: "unsure" },
} as const;

/** State of a payment, and what parts say of it. */
export function PaymentBadge(payment: Payment) {
  const { state, transaction } = payment;
  const isUncharged = state === PaymentState.FAILED || state === PaymentState.RELEASED;
  if (isUncharged && transaction !== "") return <Badge stage="unsure">Paid elsewhere</Badge>;
  const known = Object.values(PAYMENT_STATES).find((one) => one.state === state);
  return (
    <>
      <Badge stage={known?.stage ?? "unsure"}>{known?.name ?? "?"}</Badge>
      {PART_VIEWS.map(({ path, OfPayment }) => OfPayment && <OfPayment key={path} {...payment} />)}
    </>
  );
}

/** Queries payments that are unresolved, or undecided for too long. The oldest undecided payments may be left out. */
export function usePaymentsToLookAt() {
  return useAnswer(["payments", "look"], 15 * SECOND_MS, async (options): Promise<Entries<Payment>> => {
    const until = timestampFromMs(Date.now() - UNDECIDED_TOO_LONG_MS);
    const [unresolved, undecided] = await Promise.all([
      list({ state: PaymentState.UNRESOLVED }, options),
      list({ state: PaymentState.INTENT, until }, options),
    ]);
    // A payment may become unresolved between the two answers.
    const known = new Set(unresolved.items.map(({ callId }) => callId));
    const old = undecided.items.filter(({ callId }) => !known.has(callId));
    const nextPageToken = unresolved.nextPageToken || undecided.nextPageToken;
    return { items: [...unresolved.items, ...old], nextPageToken };
  });
}

function list(
  filter: MessageInitShape<typeof ListPaymentsRequestSchema>,
  options: CallOptions,
  before?: string,
): Promise<Entries<Payment>> {
  return readEntries(before, async (page) => {
    const { payments, nextPageToken } = await client.listPayments({ ...filter, ...page }, options);
    return { items: payments, nextPageToken };
  });
}

/** The payment journal. */
export function Payments({ filters }: { filters: Filters }) {
  const { data: totals } = useTotals();
  const look = usePaymentsToLookAt();
  const states = [
    { value: "", name: "All" },
    { value: "look", name: "To look at", count: BigInt(look.data?.items.length ?? 0) },
    ...Object.entries(PAYMENT_STATES).map(([value, { name }]) => ({
      value,
      name,
      count: totals?.payments?.[value as keyof typeof PAYMENT_STATES],
    })),
    { value: "refused", name: "Refused" },
  ];
  return (
    <>
      <StateLinks path="payments" filters={filters} states={states} />
      {filters.state === "refused" ? (
        <RefusedPayments filters={filters} />
      ) : filters.state === "look" ? (
        <>
          <p class="muted">
            Unresolved, or undecided for more than five minutes. The newest {PAGE_SIZE} of each.
          </p>
          <PaymentList filters={filters} answer={look} />
        </>
      ) : (
        <Journal filters={filters} />
      )}
    </>
  );
}

function Journal({ filters }: { filters: Filters }) {
  const { state = "", before } = filters;
  const answer = useAnswer(["payments", JSON.stringify(filters)], 10 * SECOND_MS, (options) => {
    const { jobId, ...rest } = readFilters(filters);
    const stateFilter =
      PAYMENT_STATES[state as keyof typeof PAYMENT_STATES]?.state ?? PaymentState.UNSPECIFIED;
    const job = jobId === undefined ? {} : { jobIndex: Number(jobId) };
    return list({ ...rest, ...job, state: stateFilter }, options, before);
  });
  return (
    <>
      <FilterBar path="payments" filters={filters} origin="x402" />
      <PaymentList filters={filters} answer={answer} />
    </>
  );
}

function PaymentList(options: {
  readonly filters: Filters;
  readonly answer: { readonly data: Entries<Payment> | undefined; readonly error: Error | null };
}) {
  return (
    <Listing
      {...options}
      path="payments"
      caption="Payments"
      noneYet={<NoJobs origin="x402" />}
      columns={[
        { label: "Call", cell: ({ callId }) => <CallLink callId={callId} /> },
        { label: "State", cell: (payment) => <PaymentBadge {...payment} /> },
        { label: "Amount", class: "number", cell: (payment) => <Amount {...payment} /> },
        {
          label: "Job",
          class: "nowrap",
          cell: ({ serviceId, jobIndex }) => (
            <JobLink origin="x402" serviceId={serviceId} jobId={BigInt(jobIndex)} />
          ),
        },
        {
          label: "Payer",
          cell: ({ payer, network }) => (
            <OnChain kind="account" network={network}>
              {payer}
            </OnChain>
          ),
        },
        { label: "Network", class: "nowrap", cell: (payment) => <NetworkName {...payment} /> },
        {
          label: "Transaction",
          cell: ({ transaction, network }) => (
            <OnChain kind="transaction" network={network}>
              {transaction}
            </OnChain>
          ),
        },
        { label: "Begun", class: "nowrap", cell: ({ createdAt }) => <Ago time={createdAt} /> },
        { label: "Reason", class: "wide", cell: ({ reason }) => reason },
      ]}
    />
  );
}

/** Amount in whole tokens, with base units as title. */
export function Amount({ amountText, amount, asset, network }: Payment) {
  return (
    <span class="amount" title={`${amount} base units of ${asset} on ${network}`}>
      {grouped(amountText)}
    </span>
  );
}
