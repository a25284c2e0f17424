import type { Row } from "./tables.ts";
import type { Transaction } from "./transaction.ts";
import { arrayOf, isIn, isLike, jsonRows, type Statements, zipped } from "./values.ts";

const SLOTS = 64;
/** Age of a note that is deleted. */
const NOTED_FOR_MS = 15 * 60_000;

function pendingOf(tx: Transaction): number {
  return tx.rows("pending").reduce((sum, { n }) => sum + n, 0);
}

/** Statements on batches, locks and sums of the store itself. */
export const UPKEEP_STATEMENTS: Statements = {
  read_start: (tx) => [{ now: tx.startedAt, pending: pendingOf(tx) }],
  look: (tx) => [{ pending: pendingOf(tx), is_read_only: false, version: 0, usable_from: 0 }],
  beat: () => [],
  adjust_pending: async (tx, [n], text) => {
    const taken = tx.rows("pending").length;
    const [free] = await tx.lock("pending", () => true, { by: "slot", limit: 1, text });
    const slot = free?.slot ?? (taken < SLOTS ? taken : tx.pid % SLOTS);
    await tx.upsert("pending", { slot, n }, (row) => ({ ...row, n: row.n + Number(n) }));
    return [];
  },

  note_batch: async (tx, [id, isNoted]) => {
    if (isNoted === true || tx.hasLocks) await tx.insertNew("batches", note(id, false));
    return [];
  },
  abandon_batch: async (tx, [id]) =>
    (await tx.insert("batches", note(id, true))) === undefined ? [] : [{ now: Date.now() }],
  find_batch: async (tx, [id], text) =>
    text.startsWith("UPDATE")
      ? tx.update("batches", isIn("id", [id]), (row) => row)
      : tx.rows("batches").filter(isIn("id", [id])),
  forget_batches: (tx, _values, text) =>
    tx.delete("batches", ({ committed_at }) => committed_at < Date.now() - NOTED_FOR_MS, { text }),

  hold_lock: async (tx, [testNow, name, owner, forMs], text) => {
    const now = Number(testNow ?? tx.startedAt);
    const held_until = now + Number(forMs);
    const change = (row: Row) => ({ ...row, owner, held_until });
    const renewed = await tx.update("locks", isLike({ name, owner }, ["name", "owner"]), change);
    if (renewed.length > 0) return renewed;
    const isOver = (row: Row) => row.name === name && row.owner !== owner && row.held_until <= now;
    const over = await tx.lock("locks", isOver, { text });
    if (over.length > 0) return tx.update("locks", isOver, change);
    return [(await tx.insert("locks", { name, owner, held_until })) ?? []].flat();
  },
  keep_locks: (tx, [testNow, names, owners], text) => {
    const isAsked = (row: Row) =>
      (names as string[]).some(
        (name, index) => name === row.name && (owners as string[])[index] === row.owner,
      );
    const isHeld = (row: Row) => isAsked(row) && row.held_until > Number(testNow ?? tx.startedAt);
    return tx.lock("locks", isHeld, { by: "name", text });
  },

  take_turn: (tx, [testNow]) => [{ is_mine: true, now: testNow ?? tx.startedAt }],
  prune_results: async (tx, [callIds]) => {
    const isReleased = (callId: number) =>
      tx.rows("payments").some(({ call_id, state }) => call_id === callId && state === "released");
    const gone = await tx.delete("results", isIn("call_id", arrayOf(callIds)));
    const dead = ({ call_id }: Row) => (isReleased(call_id) ? "uncharged" : "dead");
    return counted(tx, gone, (row) => (row.state === "succeeded" ? "done" : dead(row)));
  },
  prune_calls: async (tx, [callIds]) => [
    { n: (await tx.delete("finished_calls", isIn("call_id", arrayOf(callIds)))).length },
  ],
  prune_chunks: async (tx, columns) => {
    const old = zipped(["call_id", "attempt", "place"], columns.map(arrayOf));
    for (const row of old) await tx.delete("result_chunks", isLike(row, ["call_id", "attempt", "place"]));
    return [];
  },
  forget_result: async (tx, [callId]) => {
    const isAsked = ({ call_id, content_type }: Row) => call_id === callId && content_type !== null;
    const nothing = { body: null, stored_bytes: null, headers: null, content_type: "" };
    await tx.update("results", isAsked, (row) => ({ ...row, ...nothing }));
    return [];
  },
  forget_chunks: async (tx, [callId], text) => {
    const limit = Number(/LIMIT (\d+)/.exec(text)?.[1]);
    const next = tx
      .rows("result_chunks")
      .filter(isIn("call_id", [callId]))
      .slice(0, limit);
    for (const row of next) await tx.delete("result_chunks", isLike(row, ["call_id", "attempt", "place"]));
    return [{ n: next.length }];
  },
  prune_payments: async (tx, [callIds]) => {
    const gone = await tx.delete("payments", isIn("call_id", arrayOf(callIds)));
    for (const row of gone)
      await tx.delete("adopted_payments", isLike(row, ["payer", "nonce", "network", "asset"]));
    return counted(tx, gone, ({ ceiling, state }) => (ceiling === null ? state : `used_${state}`));
  },
};

function note(id: unknown, is_abandoned: boolean): Row {
  return { id, is_abandoned, committed_at: Date.now() };
}

/** Counts pruned rows by what they were. */
async function counted(tx: Transaction, gone: readonly Row[], nameOf: (row: Row) => string): Promise<Row[]> {
  for (const row of gone)
    await tx.upsert("pruned", { name: nameOf(row), n: 1 }, (sum) => ({ ...sum, n: sum.n + 1 }));
  return [{ n: gone.length }];
}

/** Statements of modules, by the beginning of their names. The rest of a name is the table's. */
const MODULE_STATEMENTS: Readonly<
  Record<
    string,
    (tx: Transaction, table: string, rows: readonly Row[], text: string) => Promise<readonly Row[]>
  >
> = {
  lock_rows_of: async (tx, table, keys, text) => {
    const columns = Object.keys(keys[0] ?? {});
    const isAsked = (row: Row) => keys.some((key) => isLike(key, columns)(row));
    return tx.lock(table, isAsked, { text });
  },
  insert_rows_of: async (tx, table, rows) => {
    const added: Row[] = [];
    for (const row of rows) added.push(...[(await tx.insert(table, row)) ?? []].flat());
    return added;
  },
  add_rows_of: async (tx, table, rows) => {
    for (const row of rows) await tx.insert(table, row);
    return [];
  },
  count_rows_of: async (tx, table, rows, text) => {
    const key = /ON CONFLICT \(([^)]*)\)/.exec(text)?.[1]?.split(",") ?? [];
    const sum = (one: unknown, other: unknown) => String(BigInt(String(one)) + BigInt(String(other)));
    for (const by of rows)
      await tx.upsert(table, by, (held) =>
        Object.fromEntries(
          Object.entries(held).map(([name, value]) => [
            name,
            key.includes(name) ? value : sum(value, by[name]),
          ]),
        ),
      );
    return [];
  },
  update_rows_of: async (tx, table, rows) => {
    for (const row of rows) {
      const key = tx.keyOf(table, row);
      await tx.update(
        table,
        (held) => tx.keyOf(table, held) === key,
        (held) => ({ ...held, ...row }),
      );
    }
    return [];
  },
  remove_rows_of: async (tx, table, keys) => {
    for (const key of keys) await tx.delete(table, isLike(key, Object.keys(key)));
    return [];
  },
};

/** Runs a statement of a module. @returns undefined for any other statement */
export function runModuleStatement(
  tx: Transaction,
  {
    name,
    text,
    values,
  }: { readonly name: string; readonly text: string; readonly values: readonly unknown[] },
): Promise<readonly Row[]> | undefined {
  const [, kind = "", table = ""] = /^(\w+?_rows_of)_(\w+)$/.exec(name) ?? [];
  if (kind === "all_rows_of") return Promise.resolve(tx.rows(table));
  return MODULE_STATEMENTS[kind]?.(tx, table, jsonRows(values[0]), text);
}
