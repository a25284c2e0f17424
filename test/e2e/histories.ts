import { isLinearizable, type Model, type Operation } from "../helpers/linearizable.ts";

/** An event of one payment that a client or runner saw. */
export type PaymentOp = Operation & {
  /** As it came, for readers of the history. */
  readonly answer?: string;
} & (
    | {
        readonly kind: "buy";
        /** Absent without an answer, and with one that says neither yes nor no. */
        readonly outcome?:
          | { readonly callId: number }
          /** Nothing was charged by this request; "failed": and never will be by another. */
          | "refused"
          | "failed";
      }
    | { readonly kind: "delivered"; readonly callId: number }
  );

/**
 * A payment has bought nothing at first, and then one job for ever, or it has failed for ever. "some": it has bought a job
 * that nobody has seen.
 */
export const PAYMENT: Model<"none" | "some" | "failed" | number, PaymentOp> = {
  initial: "none",
  step(state, op) {
    const has = (callId: number) => (state === "some" || state === callId ? callId : undefined);
    if (op.kind === "delivered") return has(op.callId);
    const { outcome } = op;
    if (outcome === undefined) return state === "none" ? "some" : state;
    if (typeof outcome === "object") return state === "none" ? outcome.callId : has(outcome.callId);
    if (state === "none") return outcome === "failed" ? "failed" : "none";
    return state === "failed" ? state : undefined;
  },
};

export type LeaseStatus = "done" | "lost" | "not found";

/** An event of one JobCall that a runner saw. An ack or nack without an answer has no status. */
export type LeaseOp = Operation &
  (
    | { readonly kind: "claim"; readonly token: string; readonly attempt: number }
    | { readonly kind: "ack" | "nack" | "extend"; readonly token: string; readonly status?: LeaseStatus }
  );

/** State of a JobCall: `attempt:token` of its holder, `attempt:` without one, `done`. */
export const LEASE: Model<string, LeaseOp> = {
  initial: "0:",
  step(state, op) {
    if (op.kind !== "claim" && op.status === "not found") return state === "done" ? state : undefined;
    if (state === "done") return op.kind !== "claim" && op.status === undefined ? state : undefined;
    const [attempt, holder] = state.split(":");
    if (op.kind === "claim") return op.attempt > Number(attempt) ? `${op.attempt}:${op.token}` : undefined;
    const isHeld = holder === op.token;
    // It ran out, or somebody else has the JobCall: this token never counts again.
    if (op.status === "lost") return isHeld ? `${attempt}:` : state;
    if (!isHeld) return op.status === undefined ? state : undefined;
    return { extend: state, nack: `${attempt}:`, ack: "done" }[op.kind];
  },
  // Attempts only grow. Without their order, claims that may all have happened at the start have more orders than can be tried.
  placeOf: (op) => (op.kind === "claim" ? op.attempt : undefined),
};

/** Throws with every history that has no order, as text. */
export function requireLinearizable<State extends string | number, Op extends Operation>(
  histories: ReadonlyMap<string, readonly Op[]>,
  model: Model<State, Op>,
): void {
  const wrong = [...histories].filter(([, history]) => !isLinearizable(history, model));
  if (wrong.length === 0) return;
  const texts = wrong.slice(0, 5).map(([name, history]) => `${name}:\n${historyText(history)}`);
  throw new Error(`${wrong.length} of ${histories.size} histories have no order:\n${texts.join("\n")}`);
}

function historyText(history: readonly Operation[]): string {
  return [...history]
    .sort((a, b) => a.from - b.from)
    .map(({ from, to, ...told }) => `  ${from.toFixed(1)} to ${to.toFixed(1)}: ${JSON.stringify(told)}`)
    .join("\n");
}

/** The law of a queue: all that was acknowledged is delivered, and nothing that nobody asked for. */
export function queueLosses(queue: {
  /** Bodies by call ID. */
  readonly acknowledged: ReadonlyMap<number, string>;
  /** Bodies that were asked for without an answer. */
  readonly unknown: ReadonlySet<string>;
  /** Each delivery. */
  readonly delivered: readonly { readonly callId: number; readonly body: string }[];
}) {
  const { acknowledged, unknown, delivered } = queue;
  const bodies = new Map<number, string>();
  const callOf = new Map<string, number>();
  const unexpected: { readonly callId: number; readonly body: string }[] = [];
  for (const { callId, body } of delivered) {
    const isAsked = acknowledged.get(callId) === body || (unknown.has(body) && !acknowledged.has(callId));
    const isFirst = (callOf.get(body) ?? callId) === callId && (bodies.get(callId) ?? body) === body;
    if (!isAsked || !isFirst) unexpected.push({ callId, body });
    bodies.set(callId, body);
    callOf.set(body, callId);
  }
  const lost = [...acknowledged].filter(([callId, body]) => bodies.get(callId) !== body);
  const recovered = [...bodies.keys()].filter((callId) => !acknowledged.has(callId)).length;
  return { lost, unexpected, duplicates: delivered.length - bodies.size, recovered };
}
