import type { StoreMutant } from "./store-mutants.ts";

const BATCH = "parts/postgres/batch";
const PAYMENT_ROWS = `${BATCH}/payment-rows.ts`;
const NONCES = `${BATCH}/one-time-nonces.ts`;
const UNDECIDED = `${BATCH}/undecided.ts`;
const KEYS = `${BATCH}/keys.ts`;
const LOCKS = `${BATCH}/locks.ts`;
const KNOWN = `${BATCH}/known-payments.ts`;
const PG_EFFECTS = `${BATCH}/effects.ts`;

/** Loaders and writers of the Postgres store. */
export const POSTGRES_ROW_MUTANTS: readonly StoreMutant[] = [
  {
    name: "a decision of a payment is not written",
    file: PAYMENT_ROWS,
    from: "changed.length === 0 ? [] : sql.run(DECIDE_PAYMENTS, [toJson(changed)]),",
    to: "[...changed] as { call_id: number }[],",
    test: "The Postgres store in memory > adopted payments > An adoption is forgotten with its payment, so that it buys nothing again",
  },
  {
    name: "a decision is written against the state that it makes",
    file: PAYMENT_ROWS,
    from: "if (!this.#changed.has(call_id)) this.#changed.set(call_id, before.state);",
    to: "this.#changed.set(call_id, payment.state);",
    test: "The Postgres store in memory > adopted payments > A payment in the journal is not adopted, and an adopted payment counts only once it is begun",
  },
  {
    name: "the JobCall of a settled payment stays held in Postgres",
    file: PAYMENT_ROWS,
    from: "queued.length === 0 ? [] : sql.run(RELEASE_HELD_CALLS, [queued, now]),",
    to: "[],",
    test: "The Postgres store in memory > adopted payments > A payment in the journal is not adopted, and an adopted payment counts only once it is begun",
  },
  {
    name: "the JobCall of a failed payment stays held in Postgres",
    file: PAYMENT_ROWS,
    from: "kept.length === 0 ? [] : sql.run(DROP_HELD_CALLS, [kept]),",
    to: "[],",
    test: "The Postgres store in memory > payments > A failed payment takes its held call out of the queue, and cannot be begun or failed again",
  },
  {
    name: "the JobCall of a payment that is settled late is not queued again",
    file: PAYMENT_ROWS,
    from: "requeued.length === 0 ? [] : sql.run(REQUEUE_KEPT_CALLS, [requeued, now]),",
    to: "[],",
    test: "The Postgres store in memory > payments under one name > A failed payment that turns out paid is settled without its name, if another payment was begun since",
  },
  {
    name: "a payment that failed is not watched",
    file: PAYMENT_ROWS,
    from: "begun.length === 0 ? [] : sql.run(BEGIN_WATCHES, [begun, now, early]),",
    to: "[],",
    test: "The Postgres store in memory > payments under one name > A failed payment that turns out paid has its name again, even in the batch that finds it paid",
  },
  {
    name: "the end of a watch is not written",
    file: PAYMENT_ROWS,
    from: "ended.length === 0 ? [] : sql.run(END_WATCHES, [ended]),",
    to: "ended.map((call_id) => ({ call_id })),",
    test: "The Postgres store in memory > failed payments that turn out paid > Queue their JobCall exactly once, over a restart, with a full queue, and with the body that was sent",
  },
  {
    name: "a JobCall that leaves the queue keeps its place",
    file: PAYMENT_ROWS,
    from: "capacity.adjust(requeued.length - kept.length);",
    to: "capacity.adjust(requeued.length);",
    test: "The Postgres store in memory > intake > Held, leased and delayed calls count towards max_pending, dead letters and failed payments do not; also after a restart",
  },
  {
    name: "a payment that was locked counts as not watched",
    file: PAYMENT_ROWS,
    from: "if (is_watched) this.#watched.add(call_id);",
    to: "",
    test: "The Postgres store in memory > payments under one name > A failed payment that turns out paid has its name again, even in the batch that finds it paid",
  },
  {
    name: "the name of a locked payment counts as free",
    file: PAYMENT_ROWS,
    from: "if (is_name_taken) this.#takenNames.add(call_id);",
    to: "",
    test: "The Postgres store in memory > payments under one name > A failed payment that turns out paid is settled without its name, if another payment was begun since",
  },
  {
    name: "nonces that are used are not read",
    file: NONCES,
    from: "for (const row of found) this.#known.set(row.key, row);",
    to: "",
    test: "The Postgres store in memory > one-time nonces > A used nonce is remembered until its expiry, also after a restart",
  },
  {
    name: "a nonce that was freed stays used",
    file: NONCES,
    from: "this.#freed.length === 0 ? [] : sql.run(FREE, [JSON.stringify(this.#freed)]),",
    to: "[],",
    test: "The Postgres store in memory > one-time nonces > A failed payment frees its nonce, unless another payment has taken the nonce over",
  },
  {
    name: "a nonce of a payment that is settled late stays free",
    file: NONCES,
    from: "usedAgain.length === 0 ? [] : sql.run(USE_AGAIN, [JSON.stringify(usedAgain), now]),",
    to: "[],",
    test: "The Postgres store in memory > one-time nonces > A failed payment that is settled after all takes its nonce back from an entry that has expired",
  },
  {
    name: "open payments of a batch do not count against the funds",
    file: UNDECIDED,
    from: "this.#openUnits.set(tokenText(key), this.openUnits(key) + BigInt(amount));",
    to: "",
    test: "The Postgres store in memory > deferred payments > Of ceilings that one payer opens at once, those begin that the funds cover together",
  },
  {
    name: "open payments of a batch do not count against the payer's limit",
    file: UNDECIDED,
    from: "this.#ofPayers.set(key.payer, (this.#ofPayers.get(key.payer) ?? 0) + 1);",
    to: "",
    test: "The Postgres store in memory > deferred payments > Of deferred payments that one payer opens at once, as many begin as one payer may have open",
  },
  {
    name: "undecided payments are not counted",
    file: UNDECIDED,
    from: "this.#total = total?.n ?? 0;",
    to: "this.#total = 0;",
    test: "The Postgres store in memory > undecided payments > Older than a minute are limited together, over a restart too",
  },
  {
    name: "a payer's undecided payments are not counted",
    file: UNDECIDED,
    from: "for (const { payer, n } of ofPayers) this.#ofPayers.set(payer, n);",
    to: "",
    test: "The Postgres store in memory > deferred payments > A payer's open deferred payments are bounded at once, and other payers' payments are not",
  },
  {
    name: "a key is read without the JobCall that waits first",
    file: KEYS,
    from: "for (const { order_key, call_id } of first) if (call_id !== null) this.withheld(call_id, order_key);",
    to: "",
    test: "The Postgres store in memory > a paused key > Lets its JobCalls wait until it is resumed, beside JobCalls of other keys",
  },
  {
    name: "the keys of JobCalls that end are not read",
    file: KEYS,
    from: 'if (order_key !== null && state !== "held") this.#ended.add(order_key);',
    to: 'if (order_key === null && state !== "held") this.#ended.add("");',
    test: "The Postgres store in memory > a paused key > Lets its JobCalls wait until it is resumed, beside JobCalls of other keys",
  },
  {
    name: "a lock that another owner holds counts as the own one",
    file: LOCKS,
    from: "return this.#held.has(textOf(name, owner));",
    to: "return this.#held.size >= 0;",
    test: "The Postgres store in memory > the right to send > Only who holds the network journals signatures and ends",
  },
  {
    name: "a lock that was not obtained counts as held",
    file: LOCKS,
    from: "[this.#testNow, name, owner, forMs])).length > 0;",
    to: "[this.#testNow, name, owner, forMs])).length >= 0;",
    test: "The Postgres store in memory > locks > One owner at a time holds a network, and another takes it once the lease has ended",
  },
  {
    name: "a payment with the same authorization begins again",
    file: KNOWN,
    from: "this.find(key) ?? this.get(this.#byFingerprint.get(fingerprint)) ?? this.findByName(name);",
    to: "this.find(key) ?? this.findByName(name);",
    test: "The Postgres store in memory > payments > The same payment in another letter case, or with another key, is the same payment",
  },
  {
    name: "a payment begins under a name that another holds",
    file: KNOWN,
    from: "this.find(key) ?? this.get(this.#byFingerprint.get(fingerprint)) ?? this.findByName(name);",
    to: "this.find(key) ?? this.get(this.#byFingerprint.get(fingerprint));",
    test: "The Postgres store in memory > deferred payments > A job that is charged nothing frees its name, and is still found by its payment",
  },
  {
    name: "a payment that failed holds its name",
    file: KNOWN,
    from: "return row !== undefined && holdsName(row) ? row : undefined;",
    to: "return row;",
    test: "The Postgres store in memory > payments under one name > Another one begins once the first has failed, even in that batch, but not while it is undecided",
  },
  {
    name: "revenue is not written",
    file: PG_EFFECTS,
    from: "sums.length === 0 ? [] : sql.run(ADD_REVENUE, [toJson(sums)]),",
    to: "[],",
    test: "The Postgres store in memory > deferred payments > An ack charges the whole ceiling without a charge",
  },
  {
    name: "a JobCall that is next in its key stays held in Postgres",
    file: PG_EFFECTS,
    from: "ready.length === 0 ? [] : sql.run(MAKE_READY, [numberArray(ready)]),",
    to: "[],",
    test: "The Postgres store in memory > a paused key > Lets its JobCalls wait until it is resumed, beside JobCalls of other keys",
  },
  {
    name: "a JobCall that was acked counts as not run",
    file: PG_EFFECTS,
    from: "for (const callId of await this.paymentRows.load(sql, keys, intents)) this.#succeeded.add(callId);",
    to: "await this.paymentRows.load(sql, keys, intents);",
    test: "The Postgres store in memory > callbacks > A call that is charged after it ran ends once its charge is certain",
  },
  {
    name: "payments that a batch needs and does not lock are not known to it",
    file: PG_EFFECTS,
    from: "for (const row of payments) if (this.payment(row.call_id) === undefined) this.paymentRows.use(row);",
    to: "",
    test: "The Postgres store in memory > deferred payments > An ack charges the whole ceiling without a charge",
  },
];
