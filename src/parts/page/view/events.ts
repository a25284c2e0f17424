import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Event, PaymentState } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, grouped } from "../../../page/shared/format.js";
import { type JobKey, SECOND_MS } from "../../../page/tools/format.tsx";
import type { EventText, PartEvent } from "../../../page/tools/route.ts";
import { PART_VIEWS } from "./part-views.ts";

/** Stage and name of each outcome of a payment. */
const OUTCOMES: Readonly<Record<number, readonly [EventText["stage"], string]>> = {
  [PaymentState.SETTLED]: ["waiting", "paid"],
  [PaymentState.FAILED]: ["dead", "not paid"],
  [PaymentState.SETTLING]: ["running", "being charged"],
  [PaymentState.RELEASED]: ["done", "not charged"],
};

type What = Event["what"];

/** Reports whether an event is a change in the state of money that a part moves. Only the part knows it. */
function isOfPart(what: What): what is Extract<What, { readonly value: { readonly transaction: string } }> {
  return what.value !== undefined && "transaction" in what.value;
}

export function describeEvent(event: Event): EventText {
  const { what } = event;
  const detail = "";
  const unknown = { stage: "waiting", state: "?", detail } as const;
  if (isOfPart(what)) return partEvent(event) ?? unknown;
  switch (what.case) {
    case "accepted":
      return { stage: "waiting", state: "waits", detail };
    case "delivered": {
      const { attempt, subscriber } = what.value;
      const again = attempt > 1 ? `, attempt ${attempt}` : "";
      return { stage: "running", state: "running", detail: `${subscriber}${again}` };
    }
    case "progressed": {
      const { percent, text } = what.value;
      return { stage: "running", state: "running", detail: `${percent} % ${text}`, percent };
    }
    case "acked": {
      const { resultBytes, status } = what.value;
      const result = resultBytes === 0n ? "" : `result of ${countText(resultBytes)} bytes`;
      if (status < 400) return { stage: "done", state: "done", detail: result };
      return { stage: "dead", state: "failed", detail: `status ${status}${result && `, ${result}`}` };
    }
    case "retried":
      return { stage: "waiting", state: "again", detail: what.value.reason };
    case "deadLettered":
      return { stage: "dead", state: "dead", detail: what.value.reason };
    case "dropped":
      return { stage: "dead", state: "dropped", detail };
    case "paymentBegun":
      return { stage: "waiting", state: "checked", detail };
    case "paymentDecided": {
      const { state, reason } = what.value;
      const [stage, name] = OUTCOMES[state] ?? ["unsure", "unresolved"];
      return { stage, state: name, detail: reason };
    }
    case undefined:
      return unknown;
  }
}

/** Finds the words of a part for an event that only the part knows. */
export function partEvent(event: Event): PartEvent | undefined {
  return PART_VIEWS.flatMap(({ describeEvent }) => describeEvent?.(event) ?? [])[0];
}

/** Amount of an event about money. */
export function amountOf({ what }: Event): string {
  return what.value !== undefined && "amountText" in what.value ? grouped(what.value.amountText) : "";
}

/** Text to announce for events that need attention. */
export function announcementOf(event: Event): string | undefined {
  const { callId, what } = event;
  if (what.case === "deadLettered") return `Call ${callId} is a dead letter: ${what.value.reason}.`;
  if (what.case !== "paymentDecided") return partEvent(event)?.announcement;
  const { state, amountText } = what.value;
  if (state === PaymentState.SETTLED) return `Payment of ${amountText} for call ${callId}.`;
  if (state === PaymentState.UNRESOLVED)
    return `The payment of ${amountText} for call ${callId} needs a look.`;
  return undefined;
}

/** A JobCall, or its payment, as its events describe it. */
export interface FlowingCall extends EventText {
  readonly callId: bigint;
  readonly job: JobKey | undefined;
  readonly amount: string;
  readonly at: Event["at"];
  /** True once an event was seen that comes after payment and acceptance. */
  readonly isDealt: boolean;
  /** True once a charge was decided, which shows that the job is charged after the work. */
  readonly isCharged: boolean;
}

function isCharge({ what }: Event): boolean {
  if (what.case !== "paymentDecided") return false;
  return what.value.state === PaymentState.SETTLING || what.value.state === PaymentState.RELEASED;
}

const MAX_CALLS = 40;
const RATE_WINDOW_MS = 10_000;

/** JobCalls that flow through this process, from its events. */
export class Flow {
  readonly #calls = new Map<bigint, FlowingCall>();
  #recent: { readonly at: number; readonly kind: "accepted" | "acked" }[] = [];
  /** Number of events that arrived too fast for this page. */
  missed = 0;

  /** Newest first. */
  get calls(): FlowingCall[] {
    return [...this.#calls.values()].reverse();
  }

  add(event: Event): void {
    const { callId, at, what } = event;
    if ((what.case === "accepted" || what.case === "acked") && at)
      this.#recent.push({ at: timestampMs(at), kind: what.case });
    const known = this.#calls.get(callId);
    const isCharged = known?.isCharged === true || isCharge(event);
    const isBeginning = what.case === "accepted" || (what.case === "paymentDecided" && !isCharged);
    // Events that are milliseconds apart may arrive out of order. So an early event that arrives late does not reset a
    // line, and a dead letter stays a dead letter.
    const isOver = isBeginning ? known?.isDealt : what.case === "paymentDecided" && known?.stage === "dead";
    const state =
      isOver && known !== undefined ? known : { ...describeEvent(event), at, isDealt: !isBeginning };
    const stage = isCharged && state.state === "paid" ? "done" : state.stage;
    const job = what.case === "accepted" ? what.value : known?.job;
    this.#calls.set(callId, {
      ...state,
      stage,
      isCharged,
      callId,
      job,
      amount: amountOf(event) || (known?.amount ?? ""),
    });
    const [oldest] = this.#calls.keys();
    if (this.#calls.size > MAX_CALLS && oldest !== undefined) this.#calls.delete(oldest);
  }

  perSecond(kind: "accepted" | "acked"): string {
    const now = Date.now();
    this.#recent = this.#recent.filter(({ at }) => at > now - RATE_WINDOW_MS);
    const count = this.#recent.filter((one) => one.kind === kind).length;
    return (count / (RATE_WINDOW_MS / SECOND_MS)).toFixed(1);
  }
}
