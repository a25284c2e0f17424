import type { StoreMutant } from "./store-mutants.ts";

const CHANGES = "store/machine/changes.ts";
const ENDED = "store/machine/ended.ts";
const ALERTS = "parts/payment-alerts/store/module.ts";
const SEARCH = "parts/search/store/module.ts";
const FLOW = "parts/flow/store/module.ts";
const REFUNDS = "parts/refunds/store/module.ts";
const BOOKS = "parts/books/store/module.ts";
const CALLBACKS = "parts/callbacks/store/module.ts";

/** Reactions to changes in the same commit. */
export const REACTION_MUTANTS: readonly StoreMutant[] = [
  {
    name: "revenue has only payments that failed",
    file: CHANGES,
    from: 'if (state !== "settled") return [];',
    to: 'if (state === "settled") return [];',
    test: "The SQLite store > revenue > A payment that settles late is counted once, when it settled",
  },
  {
    name: "a payment that settles after it failed stays among the failed",
    file: ENDED,
    from: 'return from === "failed" ? [counted("settled"), counted("failed", "-1")] : [counted("settled")];',
    to: 'return [counted("settled")];',
    test: "The SQLite store > failed payments that turn out paid > Queue their JobCall exactly once, over a restart, with a full queue, and with the body that was sent",
  },
  {
    name: "a payment that is charged after its job is not counted",
    file: ENDED,
    from: "return [counted(ceiling === null ?",
    to: "return ceiling !== null ? [] : [counted(ceiling === null ?",
    test: "The SQLite store > deferred payments > A dead letter charges nothing, and is not retried",
  },
  {
    name: "a job that failed counts as done",
    file: ENDED,
    from: 'if (!hasFailed(change.status)) return [counted("done")];',
    to: 'if (change.status !== null) return [counted("done")];',
    test: "The SQLite store > lookup by the paying client > A status of 400 or above fails a call, which has its result and is not a dead letter",
  },
  {
    name: "a dead letter that is released does not count as uncharged",
    file: ENDED,
    from: "  deadLettered: uncharged,\n",
    to: "",
    test: "The SQLite store > refunds > Are owed of what the authorization of a released payment moved, once, while the journal balances",
  },
  {
    name: "a dead letter that is dropped is no longer counted",
    file: ENDED,
    from: '  dropped: ({ call }) => (call.origin === "x402" ? [counted("dead")] : []),',
    to: "",
    test: "The SQLite store > lookup by the paying client > A paid dead letter is failed, also after it was dropped",
  },
  {
    name: "a charge that is lost raises no alert",
    file: ALERTS,
    from: 'return alert("charge_lost", payment, at);',
    to: "return [];",
    test: "The SQLite store > alerts about payments > The totals count the alerts of seven UTC days",
  },
  {
    name: "a payment that is settled after it failed raises no alert",
    file: ALERTS,
    from: 'return isPaidAfterAll(payment) ? alert("paid", payment, at) : [];',
    to: "return [];",
    test: "The SQLite store > alerts about payments > A payment that failed and is settled after all is an alert, unless the operator settles it",
  },
  {
    name: "a settled payment that the chain contradicts raises no alert",
    file: ALERTS,
    from: 'if (payment.state === "settled") return alert("not_paid", payment, at);',
    to: 'if (payment.state === "settled") return [];',
    test: "The SQLite store > alerts about payments > A payment that failed and is settled after all is an alert, unless the operator settles it",
  },
  {
    name: "a payment whose money moved all the same raises no alert",
    file: ALERTS,
    from: 'return alert("paid", { ...payment, amount }, at);',
    to: "return amount === '' ? alert(\"paid\", payment, at) : [];",
    test: "The SQLite store > alerts about payments > A payment that a fork took after its job was sold, and a payment that moved money after its release, are alerts",
  },
  {
    name: "the transaction that contradicts a payment is not found by search",
    file: SEARCH,
    from: 'transactionTerm(call_id, settlement).map((row) => ({ kind: "add", table: TERMS, row })),',
    to: "transactionTerm(call_id, settlement).flatMap(() => []),",
    test: "The transaction that contradicts a payment finds the payment's call",
  },
  {
    name: "a transaction that sent money is not found by search",
    file: SEARCH,
    from: 'return [{ kind: "add", table: TERMS, row }];',
    to: 'return row.entry < 0 ? [{ kind: "add", table: TERMS, row }] : [];',
    test: "A transaction that sent money for a payment finds its call, and one for no payment finds none",
  },
  {
    name: "a key stays taken once its JobCall is acked",
    file: FLOW,
    from: "    finished: ({ call }, known) => next(call, known),\n",
    to: "",
    test: "The SQLite store > order > A dead letter that was passed and is dropped leaves its key as it is",
  },
  {
    name: "a key stays held once its dead letter is dropped",
    file: FLOW,
    from: "(keyOf(call, known)?.held_by === call.call_id ? next(call, known) : []),",
    to: "(keyOf(call, known) === null ? next(call, known) : []),",
    test: "The SQLite store > a paused key > Stays paused when the dead letter that holds it up is dropped",
  },
  {
    name: "a dead letter that holds up nothing lets its key go on when it is dropped",
    file: FLOW,
    from: "(keyOf(call, known)?.held_by === call.call_id ? next(call, known) : []),",
    to: "next(call, known),",
    test: "The SQLite store > order > A dead letter that was passed and is dropped leaves its key as it is",
  },
  {
    name: "a key that is resumed stays as it was",
    file: FLOW,
    from: "    keyResumed: ({ orderKey }, known) => next({ order_key: orderKey }, known),\n",
    to: "",
    test: "The SQLite store > a paused key > Withholds a JobCall whose delay after a release was not over yet",
  },
  {
    name: "no refund is owed for the money of a released payment",
    file: REFUNDS,
    from: "if (!moved) return [];",
    to: "if (moved || !moved) return [];",
    test: "a refund > is owed of what the authorization of a released payment moved, on_failure keep",
  },
  {
    name: "no refund is owed for what a part gives back",
    file: REFUNDS,
    from: "  owed: ({ payment, amount, at }, known) => owedOfOther(payment, { amount, at }, known),\n",
    to: "",
    test: "The SQLite store > refunds in channels > What a call has not used is owed as a refund if it was claimed before the call ended",
  },
  {
    name: "a refund stays owed once its dead letter is retried",
    file: REFUNDS,
    from: 'return changed(refund, { ...refund, state: "cancelled" }, known);',
    to: "return [];",
    test: "a refund > is owed for a dead letter, and no longer once the dead letter is retried",
  },
  {
    name: "a settled payment that the chain contradicts stays in the books",
    file: BOOKS,
    from: 'if (payment.state === "settled") return moved({ ...sale,',
    to: "if (payment.state === null) return moved({ ...sale,",
    test: "The SQLite store > books > A payment that was closed as paid is taken back when the chain contradicts it, and its own movement stays",
  },
  {
    name: "the money of a released payment is not booked",
    file: BOOKS,
    from: "return came ? moved({ ...sale, amount: came.amount, transaction_hash: came.transaction }) : [];",
    to: 'return came && came.amount === "" ? moved(sale as never) : [];',
    test: "The SQLite store > books > What the authorization of a released payment moved is added",
  },
  {
    name: "a payment that is settled sends no callback",
    file: CALLBACKS,
    from: '...(state === "settled" ? event(',
    to: '...(state === "intent" ? event(',
    test: "The SQLite store > callbacks > A paid call has a callback to the operator about its payment and to both about its end, in the writes that make them",
  },
  {
    name: "a payment that is left to the operator sends no callback",
    file: CALLBACKS,
    from: '...(state === "unresolved" ? event(',
    to: '...(state === "intent" ? event(',
    test: "The SQLite store > callbacks > A payment that cannot be decided has a callback, and so has its end",
  },
];
