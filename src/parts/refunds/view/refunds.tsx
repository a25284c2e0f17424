import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  CallState,
  type Event,
  type GetCallResponse,
  type GetTotalsResponse,
  type Payment,
  PaymentState,
  type Refund,
  RefundState,
} from "../../../gen/jobgate/v1/operator_pb.ts";
import { grouped, momentText, plural } from "../../../page/shared/format.js";
import { client, useAction, useAnswer, useTotals } from "../../../page/tools/client.ts";
import { Hint, Problem, useConfirm } from "../../../page/tools/controls.tsx";
import { Ago, Badge, CallLink, Facts, NetworkName, OnChain, SECOND_MS } from "../../../page/tools/format.tsx";
import { Listing, readEntries, StateLinks } from "../../../page/tools/lists.tsx";
import { type Filters, href, type PartEvent, type PartView } from "../../../page/tools/route.ts";

/** States in the address, their names, and the stage that colours them. */
const REFUND_STATES = {
  owed: { state: RefundState.OWED, name: "Owed", stage: "unsure" },
  sending: { state: RefundState.SENDING, name: "Being sent", stage: "running" },
  refunded: { state: RefundState.REFUNDED, name: "Sent", stage: "done" },
  refund_failed: { state: RefundState.REFUND_FAILED, name: "Failed", stage: "dead" },
  declined: { state: RefundState.DECLINED, name: "Declined", stage: "dead" },
} as const;

/** Finds the name and the stage of a state. */
function refundState(state: RefundState) {
  return Object.values(REFUND_STATES).find((one) => one.state === state);
}

/** Counts the refunds of all tokens in one state. */
function refundsIn(totals: GetTotalsResponse | undefined, state: RefundState): bigint {
  const sums = totals?.refunds.filter((sum) => sum.state === state) ?? [];
  return sums.reduce((count, { refunds }) => count + refunds, 0n);
}

/** Money to give back for failed jobs. */
function Refunds({ filters }: { filters: Filters }) {
  const { state = "", before } = filters;
  const { data: totals } = useTotals();
  const answer = useAnswer(["refunds", JSON.stringify(filters)], 10 * SECOND_MS, (options) =>
    readEntries<Refund>(before, async (page) => {
      const stateFilter =
        REFUND_STATES[state as keyof typeof REFUND_STATES]?.state ?? RefundState.UNSPECIFIED;
      const { refunds, nextPageToken } = await client.listRefunds({ ...page, state: stateFilter }, options);
      return { items: refunds, nextPageToken };
    }),
  );
  const { decide, problem, dialog } = useDecision();
  const states = [
    { value: "", name: "All" },
    ...Object.entries(REFUND_STATES).map(([value, { name, state }]) => ({
      value,
      name,
      count: refundsIn(totals, state),
    })),
  ];
  return (
    <>
      <StateLinks path="refunds" filters={filters} states={states} />
      <Problem text={problem} />
      <Listing
        path="refunds"
        caption="Refunds"
        filters={filters}
        answer={answer}
        noneYet={
          <Hint>
            Nothing is to be paid back. A job that fails is paid back if its <code>on_failure</code> says so.
          </Hint>
        }
        columns={[
          { label: "Call", cell: ({ callId }) => <CallLink callId={callId} /> },
          { label: "State", cell: (refund) => <RefundBadge {...refund} /> },
          { label: "Amount", class: "number", cell: (refund) => <RefundAmount {...refund} /> },
          {
            label: "To",
            cell: ({ payer, network }) => (
              <OnChain kind="account" network={network}>
                {payer}
              </OnChain>
            ),
          },
          { label: "Network", class: "nowrap", cell: (refund) => <NetworkName {...refund} /> },
          {
            label: "Transaction",
            cell: ({ transaction, network }) => (
              <OnChain kind="transaction" network={network}>
                {transaction}
              </OnChain>
            ),
          },
          { label: "Owed since", class: "nowrap", cell: ({ createdAt }) => <Ago time={createdAt} /> },
          { label: "Reason", class: "wide", cell: (refund) => whyOf(refund) },
          { label: "Actions", class: "actions", cell: (refund) => <Buttons {...{ refund, decide }} /> },
        ]}
      />
      {dialog}
    </>
  );
}

/** The state of a payment's refund. */
function PaymentRefund({ refundState: state }: Pick<Payment, "refundState">) {
  const known = refundState(state);
  if (known === undefined) return null;
  return (
    <>
      {" "}
      <Badge stage={known.stage}>Refund {known.name.toLowerCase()}</Badge>
    </>
  );
}

function CallRefund({ call, payment, refund }: GetCallResponse) {
  if (refund !== undefined) return <RefundPanel refund={refund} />;
  const isDone = call?.state === CallState.DONE && payment?.state === PaymentState.SETTLED;
  return isDone ? <NoRefund payment={payment} /> : null;
}

/** Explanation why a paid call has no refund to send, and how to give its money back then. */
function NoRefund({ payment: { amountText, network } }: { payment: Payment }) {
  return (
    <section class="panel" aria-labelledby="no-refund">
      <h2 id="no-refund">Refund</h2>
      <p class="muted">
        jobgate pays back jobs that failed, and this one is done. To give the money back all the same, send{" "}
        {grouped(amountText)} on <NetworkName network={network} /> to the payer from a wallet of your own. The
        books of jobgate do not have that transfer.
      </p>
    </section>
  );
}

/** Refund on the page of its call. */
function RefundPanel({ refund }: { refund: Refund }) {
  const { decide, problem, dialog } = useDecision();
  const { payer, network, asset, transaction, createdAt, updatedAt } = refund;
  const onChain = (kind: "account" | "transaction", text: string) => (
    <OnChain kind={kind} network={network} isWhole>
      {text}
    </OnChain>
  );
  return (
    <section class="panel" aria-labelledby="refund">
      <div class="panel-head">
        <h2 id="refund">
          Refund <RefundBadge {...refund} />
        </h2>
        <span class="actions">
          <Buttons refund={refund} decide={decide} />
        </span>
      </div>
      <Problem text={problem} />
      {whyOf(refund) && <p class="muted">{whyOf(refund)}</p>}
      <Facts
        facts={[
          ["Amount", <RefundAmount {...refund} />],
          ["To", onChain("account", payer)],
          [
            "Token",
            <>
              {onChain("account", asset)} on <NetworkName network={network} />
            </>,
          ],
          ["Transaction", onChain("transaction", transaction)],
          ["Owed since", <Ago time={createdAt} />],
          ["Last change", updatedAt ? momentText(timestampMs(updatedAt)) : "–"],
        ]}
      />
      {dialog}
    </section>
  );
}

function RefundBadge({ state, asks, decision }: Refund) {
  const { stage = "unsure", name = "?" } = refundState(state) ?? {};
  return (
    <Badge stage={stage}>
      {name}
      {asks && ", asks you"}
      {state === RefundState.OWED && decision?.approved && ", approved"}
    </Badge>
  );
}

function RefundAmount({ amountText, amount, asset, network }: Refund) {
  return (
    <span class="amount" title={`${amount} base units of ${asset} on ${network}`}>
      {grouped(amountText)}
    </span>
  );
}

/** Returns who decided about a refund, and why it waits or failed. */
function whyOf({ decision, reason }: Refund): string {
  const decided =
    decision && `${decision.approved ? "approved" : "declined"} by ${decision.by}: ${decision.note}`;
  return [decided, reason].filter(Boolean).join("; ");
}

type Decide = (kind: "approve" | "decline", refund: Refund) => void;

/** Buttons for the decisions that the state allows. */
function Buttons({ refund, decide }: { refund: Refund; decide: Decide }) {
  const { callId, state, asks } = refund;
  const isFailed = state === RefundState.REFUND_FAILED;
  return (
    <>
      {(asks || isFailed || state === RefundState.DECLINED) && (
        <button
          type="button"
          aria-label={`Send the refund of call ${callId}`}
          onClick={() => decide("approve", refund)}
        >
          Send
        </button>
      )}
      {(state === RefundState.OWED || isFailed) && (
        <button
          type="button"
          class="danger"
          aria-label={`Decline the refund of call ${callId}`}
          onClick={() => decide("decline", refund)}
        >
          Decline
        </button>
      )}
    </>
  );
}

/** Returns a function that asks for the operator's name and note, and then decides about a refund. */
function useDecision() {
  const { run, problem } = useAction();
  const [ask, dialog] = useConfirm();
  const decide: Decide = (kind, { callId, amountText, payer, state }) =>
    ask({
      ...(kind === "approve"
        ? {
            title: `Send ${amountText} back?`,
            text:
              state === RefundState.SENDING
                ? `Only if no block has the transaction of call ${callId}: otherwise ${payer} gets it twice.`
                : `${payer} gets it for call ${callId}. Once it is sent, this cannot be undone.`,
            action: "Send it back",
          }
        : {
            title: `Keep ${amountText}?`,
            text: `The buyer of call ${callId} is not paid back, and can see that.`,
            action: "Keep it",
            isDangerous: true,
          }),
      isSigned: true,
      onAgree: (signature) =>
        void run(async () => {
          const request = { callId, ...signature };
          if (kind === "approve") await client.approveRefund(request);
          else await client.declineRefund(request);
          return `The refund of call ${callId} is ${kind === "approve" ? "approved" : "declined"}.`;
        }),
    });
  return { decide, problem, dialog };
}

function describeEvent({ callId, what }: Event): PartEvent | undefined {
  if (what.case !== "refundChanged") return undefined;
  const { state, reason, amountText } = what.value;
  const { stage = "unsure", name = "?" } = refundState(state) ?? {};
  const hasFailed = state === RefundState.REFUND_FAILED;
  return {
    ...{ stage, state: `refund ${name.toLowerCase()}`, detail: reason, topic: "refunds" },
    announcement: hasFailed ? `The refund of ${amountText} for call ${callId} failed.` : undefined,
  };
}

/** Refunds that the operator should decide about or repair. */
function useAttention() {
  const { data: totals } = useTotals();
  return (["owed", "refund_failed"] as const).flatMap((state) => {
    const count = refundsIn(totals, REFUND_STATES[state].state);
    const text = `${plural(Number(count), "refund")} ${REFUND_STATES[state].name.toLowerCase()}`;
    return count > 0n ? [{ to: href("refunds", { state }), text }] : [];
  });
}

export const VIEW: PartView = {
  path: "refunds",
  title: "Refunds",
  after: "payments",
  View: Refunds,
  OfPayment: PaymentRefund,
  BelowPayment: CallRefund,
  useAttention,
  describeEvent,
};
