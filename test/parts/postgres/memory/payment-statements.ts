import type { PaymentState } from "../../../../src/core/payment.ts";
import { MAX_WATCHED, YOUNG_MS } from "../../../../src/store/contract/payment-journal.ts";
import { ENDED_AT_ONCE } from "../../../../src/store/payment-queries.ts";
import { holdsName } from "../../../../src/store/rules/payments.ts";
import type { Row } from "./tables.ts";
import { databaseError, type Transaction } from "./transaction.ts";
import { arrayOf, isIn, isLike, jsonRows, type Statements, zipped } from "./values.ts";

const PAYMENT_KEY = ["network", "asset", "payer", "nonce"];
const isOpen = isIn("state", ["authorized", "settling"]);

function isOld(tx: Transaction, now: unknown): (row: Row) => boolean {
  const before = Number(now ?? tx.startedAt) - YOUNG_MS;
  return ({ state, created_at }) => state === "intent" && created_at <= before;
}

function count(tx: Transaction, fits: (row: Row) => boolean): number {
  return tx.rows("payments").filter(fits).length;
}

/** Returns watches beyond the most that are kept of a kind. */
function beyondMost(watches: readonly Row[], isDeferred: boolean): Row[] {
  const ofKind = watches.filter(({ is_deferred, is_early }) => is_deferred === isDeferred && !is_early);
  return ofKind.sort((a, b) => b.since - a.since).slice(MAX_WATCHED);
}

/** Statements on payments. */
export const PAYMENT_STATEMENTS: Statements = {
  find_payments_by_fingerprint: (tx, [all]) =>
    tx.rows("payments").filter(isIn("fingerprint", all as string[])),
  find_payments_by_purchase_name: (tx, columns) => {
    const asked = zipped(["payer", "purchase_name"], columns as string[][]);
    const isAsked = (row: Row) => asked.some((one) => isLike(one, ["payer", "purchase_name"])(row));
    return tx.rows("payments").filter((row) => holdsName(row as { state: PaymentState }) && isAsked(row));
  },
  lock_payments: async (tx, columns, text) => {
    const asked = zipped(PAYMENT_KEY, columns as string[][]);
    const isAsked = (row: Row) => asked.some((one) => isLike(one, PAYMENT_KEY)(row));
    // What is read beside a row is as it was before the wait.
    const before = tx.rows("payments");
    const finished = tx.rows("finished_calls").filter(isIn("state", ["succeeded"]));
    const watches = tx.rows("watched_payments");
    const locked = await tx.lock("payments", isAsked, { by: "call_id", text });
    return locked.map((row) => {
      const { call_id, ceiling, payer, purchase_name } = row;
      const isOther = (other: Row) =>
        other.payer === payer &&
        other.purchase_name === purchase_name &&
        holdsName(other as { state: PaymentState }) &&
        other.call_id !== call_id;
      return {
        ...row,
        state_before: before.find((one) => one.call_id === call_id)?.state,
        has_succeeded: ceiling !== null && finished.some((one) => one.call_id === call_id),
        is_watched: watches.some((one) => one.call_id === call_id),
        is_name_taken: purchase_name !== null && before.some(isOther),
      };
    });
  },
  sold_payments: (tx, [callIds]) => tx.rows("payments").filter(isIn("call_id", arrayOf(callIds))),
  insert_payments: async (tx, [json]) => {
    const added: Row[] = [];
    for (const row of jsonRows(json, PAYMENT_KEY))
      added.push(...[(await tx.insert("payments", row)) ?? []].flat());
    return added;
  },
  set_ceilings: async (tx, [json]) => {
    for (const [callId, ceiling, min_charge] of JSON.parse(String(json)) as [number, string, string | null][])
      await tx.update("job_calls", isIn("call_id", [callId]), (row) => ({ ...row, ceiling, min_charge }));
    return [];
  },
  decide_payments: async (tx, [json]) => {
    const decided: Row[] = [];
    for (const { state_before, ...next } of jsonRows(json)) {
      const fits = ({ call_id, state }: Row) => call_id === next.call_id && state === state_before;
      decided.push(...(await tx.update("payments", fits, (row) => ({ ...row, ...next }))));
    }
    return decided;
  },
  release_held_calls: async (tx, [callIds, now]) => {
    const isHeld = ({ call_id, state }: Row) => (callIds as number[]).includes(call_id) && state === "held";
    await tx.update("job_calls", isHeld, (row) => ({ ...row, state: "ready", enqueued_at: now }));
    return [];
  },
  drop_held_calls: (tx, [callIds]) =>
    tx.delete(
      "job_calls",
      ({ call_id, state }) => (callIds as number[]).includes(call_id) && state === "held",
    ),
  drop_bodies: (tx, [callIds]) => tx.delete("job_bodies", isIn("call_id", callIds as number[])),
  requeue_kept_calls: async (tx, [callIds, now]) => {
    for (const row of tx.rows("payments").filter(isIn("call_id", callIds as number[]))) {
      const { call_id, service_id } = row;
      const call = { call_id, service_id, origin: "x402", job_id: String(row.job_index), state: "ready" };
      await tx.insertNew("job_calls", { ...call, enqueued_at: now });
    }
    return [];
  },
  begin_watches: async (tx, [callIds, since, early]) => {
    for (const { call_id, ceiling } of tx.rows("payments").filter(isIn("call_id", callIds as number[]))) {
      const is_early = (early as number[]).includes(call_id);
      const watch = { call_id, since, is_deferred: ceiling !== null, is_early };
      await tx.upsert("watched_payments", watch, (row) => ({ ...row, since, is_early }));
    }
    return [];
  },
  end_watches: (tx, [callIds]) => tx.delete("watched_payments", isIn("call_id", callIds as number[])),
  lock_old_watches: async (tx, [before], text) => {
    const watches = tx.rows("watched_payments");
    const extra = [...beyondMost(watches, true), ...beyondMost(watches, false)].map(({ call_id }) => call_id);
    const isOver = ({ since, call_id, is_early }: Row) =>
      (since <= Number(before) && !is_early) || extra.includes(call_id);
    const old = (await tx.lock("watched_payments", isOver, { limit: ENDED_AT_ONCE, text })).map(
      ({ call_id }) => call_id as number,
    );
    return tx.rows("payments").filter(isIn("call_id", old));
  },
  add_revenue: async (tx, [json]) => {
    const slot = tx.pid % 64;
    for (const row of jsonRows(json, ["hour", "network", "asset", "symbol"]))
      await tx.upsert("revenue_hours", { ...row, slot }, (sums) => ({
        ...sums,
        amount: String(BigInt(sums.amount) + BigInt(row.amount)),
        payments: sums.payments + row.payments,
      }));
    return [];
  },

  count_uncounted: (tx, [now]) => {
    const isLeft = ({ state, ceiling }: Row) => state === "unresolved" && ceiling === null;
    return [{ n: count(tx, isOld(tx, now)) + count(tx, isLeft) }];
  },
  count_undecided: (tx, [now, most]) => [{ n: Math.min(Number(most), count(tx, isOld(tx, now))) }],
  count_undecided_by_payer: (tx, [now, payers, most]) =>
    (payers as string[]).map((payer) => {
      const n = count(tx, (row) => row.payer === payer && (isOld(tx, now)(row) || isOpen(row)));
      return { payer, n: Math.min(Number(most), n) };
    }),
  lock_payers: async (tx, [payers]) => {
    for (const payer of [...new Set(payers as string[])].sort())
      await tx.upsert("advisory", { payer }, (row) => row);
    return [];
  },
  sum_open: (tx, [now, payers, ageMs]) => {
    const since = Number(now ?? tx.startedAt) - Number(ageMs);
    const isRecent = (row: Row) => row.state === "settled" && row.updated_at >= since;
    const sums = new Map<string, Row>();
    for (const row of tx.rows("payments").filter(isIn("payer", payers as string[]))) {
      if (!isOpen(row) && !isRecent(row)) continue;
      const { network, asset, payer, amount } = row;
      const key = `${network} ${asset} ${payer}`;
      const units = String(BigInt(sums.get(key)?.units ?? 0) + BigInt(amount));
      sums.set(key, { network, asset, payer, units });
    }
    return [...sums.values()];
  },

  select_one_time_nonces: (tx, [keys]) => tx.rows("one_time_nonces").filter(isIn("key", keys as string[])),
  free_one_time_nonces: async (tx, [json]) => {
    for (const row of jsonRows(json)) await tx.delete("one_time_nonces", isLike(row, ["key", "call_id"]));
    return [];
  },
  forget_one_time_nonces: (tx, [secs, n], text) => {
    const isOver = ({ expires_at_secs }: Row) => expires_at_secs <= Number(secs);
    return tx.delete("one_time_nonces", isOver, { limit: Number(n) * 10, text });
  },
  use_one_time_nonces: useNonces,
  use_one_time_nonces_again: useNonces,
};

/** Uses up nonces; an expired entry is replaced. @throws DatabaseError for a key that is given twice, as Postgres does */
async function useNonces(tx: Transaction, [json, now]: readonly unknown[]): Promise<Row[]> {
  const used: Row[] = [];
  const rows = jsonRows(json, ["key"]);
  if (new Set(rows.map(({ key }) => key)).size < rows.length)
    throw databaseError("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time");
  for (const row of rows) {
    const isOver = ({ expires_at_secs }: Row) => expires_at_secs * 1000 <= Number(now);
    const change = (other: Row) => ({ ...other, expires_at_secs: row.expires_at_secs, call_id: row.call_id });
    const written = await tx.upsert("one_time_nonces", row, change, isOver);
    if (written !== undefined) used.push(written);
  }
  return used;
}
