import type { WorldMutant } from "./mutant.ts";

const SENDER = "parts/transactions/sender.ts";
const SENT = "parts/transactions/sent-transactions.ts";
const BOOKS = "parts/books/store/module.ts";
const REFUNDS = "parts/refunds/store/module.ts";
const REFUND_RULES = "parts/refunds/store/rules.ts";

/** Guards of the transactions that a gateway sends itself, of refunds and of the books. */
export const SETTLER_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a transaction is broadcast before it is journalled",
    parts: [],
    seed: 15,
    file: SENDER,
    from: 'await this.#write("signed", () => journal.signTransactions(network, owner, signed));',
    to: 'this.#write("signed", () => journal.signTransactions(network, owner, signed)).catch(() => undefined);',
  },
  {
    name: "a transaction that was sent before a restart is forgotten",
    parts: [],
    seed: 1,
    ...{ file: SENDER, from: "if (isSigned(record)) sent.add(record, head);", to: "" },
  },
  {
    name: "bytes that were replaced count as another's",
    parts: [],
    seed: 31,
    ...{
      file: SENT,
      from: "return [signed.hash, ...signed.earlierHashes.toReversed()];",
      to: "return [signed.hash];",
    },
  },
  {
    name: "a block that was replaced counts as final",
    parts: ["webhooks"],
    seed: 28,
    ...{
      file: SENT,
      from: "(await hashes.get(blockNumber)) === blockHash",
      to: "await hashes.get(blockNumber)",
    },
  },
  {
    name: "a missing receipt proves that another transaction has the nonce",
    seed: 86,
    ...{
      file: SENT,
      from: "if (hash !== undefined && !hashesOf(record).includes(hash.toLowerCase()))",
      to: "if (hash === undefined || !hashesOf(record).includes(hash.toLowerCase()))",
    },
  },
  {
    name: "nobody notices that somebody else used a nonce",
    parts: [],
    seed: 8,
    ...{ file: SENT, from: "ends: foreign,", to: "ends: []," },
  },
  {
    name: "a transaction whose fee is too low is not replaced",
    parts: [],
    seed: 72,
    ...{ file: SENDER, from: "if (stuck.length === 0) return;", to: "if (stuck) return;" },
  },
  {
    name: "a refund without a receipt has failed",
    parts: [],
    seed: 86,
    file: "parts/refunds/refund-outcome.ts",
    from: 'if (receipt?.status !== "success" ||',
    to: 'if (receipt === undefined) return { state: "failed", reason: "no receipt" };\n      if (receipt?.status !== "success" ||',
  },
  {
    name: "a refund that is being sent is approved again",
    parts: [],
    seed: 72,
    ...{
      file: REFUND_RULES,
      from: '(state === "owed" && row?.is_approved === 0) ||',
      to: 'state === "sending" || (state === "owed" && row?.is_approved === 0) ||',
    },
  },
  {
    name: "a refund that is being sent is declined",
    parts: [],
    seed: 12,
    ...{
      file: REFUND_RULES,
      from: '? state === "owed" || state === "refund_failed"',
      to: '? state !== "refunded"',
    },
  },
  {
    name: "a refund is sent although the operator has to be asked",
    parts: [],
    seed: 7,
    ...{ file: REFUNDS, from: 'payment.on_failure === "refund" && payment.closed === null', to: "true" },
  },
  {
    name: "no refund is owed for a dead letter",
    parts: [],
    seed: 86,
    ...{ file: REFUNDS, from: 'payment.on_failure === "keep"', to: 'payment.on_failure !== "ask"' },
  },
  {
    name: "a refund that is sent stays owed",
    parts: [],
    seed: 86,
    file: REFUNDS,
    ...{ from: "return toRefund(change(commit, before, row));", to: "return toRefund(row);" },
  },
  {
    name: "the fee of a transaction that reverted is not booked",
    parts: [],
    seed: 15,
    file: "parts/transactions/store/rules.ts",
    ...{
      from: '(after.state === "succeeded" || after.state === "reverted")',
      to: 'after.state === "succeeded"',
    },
  },
  {
    name: "a settled payment is not booked",
    parts: [],
    seed: 14,
    ...{
      file: BOOKS,
      from: 'if (payment.state !== "settled") return [];\n    const',
      to: "return [];\n    const",
    },
  },
  {
    name: "a charge is booked as a payment at the ceiling",
    parts: [],
    seed: 14,
    ...{ file: BOOKS, from: "at, kind, amount });", to: "at, kind, amount: ceiling ?? amount });" },
  },
  {
    name: "a refund is not booked",
    parts: [],
    seed: 86,
    ...{ file: REFUNDS, from: 'end.state === "sent") noteSent', to: 'end.state === "unsigned") noteSent' },
  },
];
