import { type PaymentAlert, PaymentAlertKind } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, grouped } from "../../../page/shared/format.js";
import { client, useAnswer, useTotals } from "../../../page/tools/client.ts";
import { Hint } from "../../../page/tools/controls.tsx";
import {
  Ago,
  Badge,
  CallLink,
  JobLink,
  NetworkName,
  OnChain,
  SECOND_MS,
} from "../../../page/tools/format.tsx";
import { Listing, readEntries, StateLinks } from "../../../page/tools/lists.tsx";
import { type Filters, href, type PartView } from "../../../page/tools/route.ts";
import { alertLines } from "../portable/alert-lines.ts";

const PATH = "payment-alerts";

/** The API's number of each kind in the address. */
const KINDS = {
  charge_lost: PaymentAlertKind.CHARGE_LOST,
  paid: PaymentAlertKind.PAID,
  not_paid: PaymentAlertKind.NOT_PAID,
} as const;
const NAMES: Readonly<Record<keyof typeof KINDS, string>> = {
  charge_lost: "Charge lost",
  paid: "Paid after all",
  not_paid: "Not on the chain",
};

/** Decided payments that a person should look at. */
function Alerts({ filters }: { filters: Filters }) {
  const { state = "", before } = filters;
  const { data: totals } = useTotals();
  const answer = useAnswer([PATH, JSON.stringify(filters)], 10 * SECOND_MS, (options) =>
    readEntries<PaymentAlert>(before, async (page) => {
      const kind = KINDS[state as keyof typeof KINDS] ?? PaymentAlertKind.UNSPECIFIED;
      const { alerts, nextPageToken } = await client.listPaymentAlerts({ ...page, kind }, options);
      return { items: alerts, nextPageToken };
    }),
  );
  const countOf = (kind: PaymentAlertKind) => totals?.paymentAlerts.find((one) => one.kind === kind)?.count;
  const states = [
    { value: "", name: "All" },
    ...Object.entries(NAMES).map(([value, name]) => ({
      ...{ value, name },
      count: countOf(KINDS[value as keyof typeof KINDS]),
    })),
  ];
  return (
    <>
      <StateLinks path={PATH} filters={filters} states={states} />
      <p class="muted">Numbers are those of the last seven days.</p>
      <Listing
        path={PATH}
        caption="Alerts"
        filters={filters}
        answer={answer}
        noneYet={<Hint>No charge was lost, and the chain has contradicted no payment.</Hint>}
        columns={[
          { label: "Call", cell: ({ callId }) => <CallLink callId={callId} /> },
          { label: "Alert", cell: (alert) => <KindBadge {...alert} /> },
          {
            label: "Amount",
            class: "number",
            cell: ({ amountText, amount }) => (
              <span class="amount" title={`${amount} base units`}>
                {grouped(amountText)}
              </span>
            ),
          },
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
          { label: "Network", class: "nowrap", cell: (alert) => <NetworkName {...alert} /> },
          { label: "Noticed", class: "nowrap", cell: ({ at }) => <Ago time={at} /> },
          { label: "Reason", class: "wide", cell: ({ reason }) => reason },
        ]}
      />
    </>
  );
}

function KindBadge({ kind }: PaymentAlert) {
  const name = Object.entries(NAMES).find(([name]) => KINDS[name as keyof typeof KINDS] === kind)?.[1] ?? "?";
  return <Badge stage={kind === PaymentAlertKind.PAID ? "unsure" : "dead"}>{name}</Badge>;
}

/** Alerts of the last week, which lead to their lists. */
function useAttention() {
  const { data: totals } = useTotals();
  return alertLines<PaymentAlertKind>(totals?.paymentAlerts ?? [], KINDS).map(({ name, count, text }) => ({
    to: href(PATH, { state: name }),
    text: `${countText(count)} ${text}`,
  }));
}

export const VIEW: PartView = { path: PATH, title: "Alerts", after: "payments", View: Alerts, useAttention };
