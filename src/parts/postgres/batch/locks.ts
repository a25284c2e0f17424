import { NOW, type Sql, statement } from "../sql.ts";

// The statement does not wait for a lock that another batch is about to take or use.
const HOLD_LOCK = statement<{ name: string }>(
  "hold_lock",
  `WITH renewed AS (
     UPDATE jobgate.locks SET held_until = ${NOW} + $4 WHERE name = $2 AND owner = $3 RETURNING name),
   taken AS (
     UPDATE jobgate.locks SET owner = $3, held_until = ${NOW} + $4
      WHERE name = (SELECT name FROM jobgate.locks
                     WHERE name = $2 AND owner <> $3 AND held_until <= ${NOW} FOR UPDATE SKIP LOCKED)
     RETURNING name),
   new AS (
     INSERT INTO jobgate.locks VALUES ($2, $3, ${NOW} + $4) ON CONFLICT (name) DO NOTHING RETURNING name)
   SELECT name FROM renewed UNION ALL SELECT name FROM taken UNION ALL SELECT name FROM new`,
);
// The rows stay locked until the batch is decided, so that no other process takes a network while its owner signs.
const KEEP_LOCKS = statement<{ name: string; owner: string }>(
  "keep_locks",
  `SELECT name, owner FROM jobgate.locks
     JOIN unnest($2::text[], $3::text[]) AS asked (name, owner) USING (name, owner)
    WHERE held_until > ${NOW} ORDER BY name FOR UPDATE OF locks`,
);
/** Locks of background services that a batch takes and checks. */
export class PostgresLocks {
  readonly #testNow: number | null;
  readonly #held = new Set<string>();

  /** @param testNow replaces the database's clock */
  constructor(testNow: number | null) {
    this.#testNow = testNow;
  }

  async hold(sql: Sql, name: string, owner: string, forMs: number): Promise<boolean> {
    return (await sql.run(HOLD_LOCK, [this.#testNow, name, owner, forMs])).length > 0;
  }

  /** Keeps locks as they are until the batch is decided. */
  async keep(sql: Sql, asked: readonly { readonly name: string; readonly owner: string }[]): Promise<void> {
    if (asked.length === 0) return;
    const [names, owners] = [asked.map(({ name }) => name), asked.map(({ owner }) => owner)];
    for (const { name, owner } of await sql.run(KEEP_LOCKS, [this.#testNow, names, owners]))
      this.#held.add(textOf(name, owner));
  }

  isHeld(name: string, owner: string): boolean {
    return this.#held.has(textOf(name, owner));
  }
}

function textOf(name: string, owner: string): string {
  return `${name} ${owner}`;
}
