import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/preact-query";
import {
  type Call,
  CallState,
  type Event,
  type GetCallResponse,
  GetCallResponseSchema,
  type Payment,
  PaymentState,
} from "../../../gen/jobgate/v1/operator_pb.ts";
import { momentText, spanText } from "../../../page/shared/format.js";
import { client, ifFound, useAnswer } from "../../../page/tools/client.ts";
import { Hint } from "../../../page/tools/controls.tsx";
import {
  Ago,
  Badge,
  CallLink,
  Facts,
  JobLink,
  NetworkName,
  OnChain,
  SECOND_MS,
} from "../../../page/tools/format.tsx";
import { DeadLetterActions } from "./dead-letters.tsx";
import { amountOf, describeEvent } from "./events.ts";
import { CallBadge } from "./jobs.tsx";
import { PART_VIEWS } from "./part-views.ts";
import { Amount, PaymentBadge } from "./payments.tsx";

/** Characters of a body that are shown. */
const MAX_BODY_CHARS = 10_000;

/** One JobCall: what happened to it, its payment, its metadata, and the body of a dead letter. */
export function CallPage({ callId: text }: { callId: string }) {
  const callId = /^\d{1,16}$/.test(text) ? BigInt(text) : 0n;
  const { data: found } = useAnswer(["call", text], 5 * SECOND_MS, async (options) => {
    const answer = await ifFound(client.getCall({ callId }, options));
    if (answer !== undefined) return answer;
    // The JobCall of a failed payment was never queued.
    const payment = (await ifFound(client.getPayment({ callId }, options)))?.payment;
    return create(GetCallResponseSchema, payment && { payment });
  });
  if (found === undefined) return <p class="empty">…</p>;
  const { call, payment, timeline, metadata } = found;
  if (call === undefined && payment === undefined)
    return <p class="panel">There is no call {text}: it never was, or it was pruned.</p>;
  return (
    <>
      <div class="columns">
        <div class="stack">
          {call && <Summary {...found} call={call} />}
          {call === undefined && <p class="panel">This call was never queued, because it was not paid.</p>}
          {timeline.length > 0 && <Timeline events={timeline} />}
        </div>
        <div class="stack">
          {payment && <PaymentPanel payment={payment} />}
          {PART_VIEWS.map(({ path, BelowPayment }) => BelowPayment && <BelowPayment key={path} {...found} />)}
          {Object.keys(metadata).length > 0 && (
            <section class="panel" aria-labelledby="metadata">
              <h2 id="metadata">Metadata</h2>
              <Facts
                facts={Object.entries(metadata).map(([name, value]) => [
                  name,
                  <span class="mono">{value}</span>,
                ])}
              />
            </section>
          )}
          {call?.state === CallState.DEAD && <Body callId={callId} />}
        </div>
      </div>
      {PART_VIEWS.map(({ path, BelowCall }) => BelowCall && <BelowCall key={path} {...found} />)}
    </>
  );
}

function Summary({
  call,
  waitReasons,
  orderKey,
}: Pick<GetCallResponse, "waitReasons" | "orderKey"> & { call: Call }) {
  const { callId, state, reason, status, attempts, subscriber, enqueuedAt, dueAt, finishedAt } = call;
  return (
    <section class="panel" aria-labelledby="summary">
      <div class="panel-head">
        <h2 id="summary">
          Job <CallBadge state={state} />{" "}
          {finishedAt === undefined &&
            PART_VIEWS.map(({ path, OfJob }) => OfJob && <OfJob key={path} jobId={call.jobId} />)}
        </h2>
        {state === CallState.DEAD && <DeadLetterActions callId={callId} />}
      </div>
      {reason && <p class="muted">{reason}</p>}
      {waitReasons.map((one) => (
        <p key={one}>{withLinks(one)}</p>
      ))}
      <Facts
        facts={[
          ["Job", <JobLink {...call} />],
          ...(orderKey ? [["Order key", <span class="mono">{orderKey}</span>] as const] : []),
          ["Accepted", <Ago time={enqueuedAt} />],
          ...(finishedAt ? [["Finished", <Ago time={finishedAt} />] as const] : []),
          ...(dueAt
            ? [[state === CallState.LEASED ? "Lease ends" : "Due", momentText(timestampMs(dueAt))] as const]
            : []),
          ...(status > 0 ? [["Status of the result", status] as const] : []),
          ["Attempts", attempts],
          ...(subscriber ? [["Runner", subscriber] as const] : []),
        ]}
      />
    </section>
  );
}

/** Links the dead letter and the payment that a sentence names. */
function withLinks(sentence: string) {
  const [before, kind, id = "", after] = sentence.split(/(dead letter|payment) (\d+)/);
  if (kind === undefined) return sentence;
  return (
    <>
      {before}
      {kind} <CallLink callId={BigInt(id)} />
      {after}
    </>
  );
}

function Timeline({ events }: { events: readonly Event[] }) {
  let before: number | undefined;
  return (
    <section class="panel" aria-labelledby="timeline">
      <h2 id="timeline">Timeline</h2>
      <ol class="lines">
        {events.map((event, index) => {
          const { stage, state, detail } = describeEvent(event);
          const at = event.at && timestampMs(event.at);
          const took = at !== undefined && before !== undefined ? durationBetween(before, at) : "";
          before = at;
          return (
            <li key={`${index} ${event.what.case}`} class="call step">
              <Badge stage={stage}>{STEP_NAMES[event.what.case ?? "accepted"] ?? state}</Badge>
              <span class="detail">
                {amountOf(event) && <span class="amount">{amountOf(event)}</span>} {detail}
              </span>
              <span class="muted">
                {at !== undefined && (
                  <time dateTime={new Date(at).toISOString()} title={momentText(at)}>
                    {momentText(at)}
                  </time>
                )}
                {took && ` · +${took}`}
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

/** Names of steps that say more than the state after the step. */
const STEP_NAMES: Readonly<Record<string, string>> = {
  accepted: "accepted",
  delivered: "delivered",
  acked: "done",
  retried: "back in the queue",
  deadLettered: "dead letter",
  paymentBegun: "payment begun",
};

function durationBetween(from: number, to: number): string {
  const ms = Math.max(0, to - from);
  return ms < 10 * SECOND_MS ? `${(ms / SECOND_MS).toFixed(ms < SECOND_MS ? 3 : 1)} s` : spanText(ms);
}

function PaymentPanel({ payment }: { payment: Payment }) {
  const { state, reason, payer, payTo, network, asset, nonce, transaction, closed } = payment;
  const { ceilingText, chargeSoFar } = payment;
  const onChain = (kind: "account" | "transaction", text: string) => (
    <OnChain kind={kind} network={network} isWhole>
      {text}
    </OnChain>
  );
  return (
    <section class="panel" aria-labelledby="payment">
      <div class="panel-head">
        <h2 id="payment">
          Payment <PaymentBadge {...payment} />
        </h2>
      </div>
      {reason && <p class="muted">{reason}</p>}
      <Facts
        facts={[
          ["Amount", <Amount {...payment} />],
          ...(ceilingText ? [["At most", ceilingText] as const] : []),
          ...(chargeSoFar ? [["Used so far", `${chargeSoFar} base units`] as const] : []),
          ["Payer", onChain("account", payer)],
          ["Paid to", onChain("account", payTo)],
          [
            "Token",
            <>
              {onChain("account", asset)} on <NetworkName network={network} />
            </>,
          ],
          ["Nonce", <span class="mono">{nonce}</span>],
          ["Transaction", onChain("transaction", transaction)],
          ["Begun", <Ago time={payment.createdAt} />],
          ["Valid until", payment.validBefore ? momentText(timestampMs(payment.validBefore)) : "–"],
          ...(closed ? [["Decided by", `${closed.by}: ${closed.note}`] as const] : []),
        ]}
      />
      {state === PaymentState.UNRESOLVED && (
        <Hint command={`jobgate payments close ${payment.callId} --as paid --note REASON`}>
          Look for the nonce on the token's chain, then decide (--as paid or not-paid):
        </Hint>
      )}
    </section>
  );
}

/** Body of a dead letter. It comes from outside and is rendered as text. */
function Body({ callId }: { callId: bigint }) {
  const { data } = useQuery({
    queryKey: ["body", String(callId)],
    queryFn: () => client.getDeadLetter({ callId }),
    // The body never changes, and is deleted once the dead letter is retried or dropped.
    staleTime: "static",
  });
  return (
    <div class="panel">
      <h2 id="body">Body</h2>
      <pre tabIndex={0} role="region" aria-labelledby="body">
        {data ? bodyText(data.body) : "…"}
      </pre>
    </div>
  );
}

function bodyText(bytes: Uint8Array): string {
  if (bytes.length === 0) return "(empty)";
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.length > MAX_BODY_CHARS ? `${text.slice(0, MAX_BODY_CHARS)}… (${bytes.length} bytes)` : text;
  } catch {
    return `${bytes.length} bytes that are not text`;
  }
}
