import type { ListDialect } from "../../list-dialect.ts";
import { ListQueries } from "../../list-queries.ts";
import { MOVEMENT_COLUMN_LIST, type MovementRow, toMovement } from "../../movement-row.ts";
import {
  findCallDetails,
  type Lookup,
  listCalls,
  listDeadLetterGroups,
  listPayments,
} from "../../operator-lists.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";

const DIALECT: ListDialect = {
  schema: "",
  parameter: (number) => `?${number}`,
  now: (parameter) => parameter,
  indexedBy: (index) => ` INDEXED BY ${index}`,
  within: ({ keys, id }, { before, from }) =>
    [
      ...keys.map(({ column, value }) => `${column} = ${value}`),
      `${id} < ${before}`,
      `${id} >= ${from}`,
    ].join(" AND "),
  newestFirst: ({ id }) => `${id} DESC`,
  contains: (bytes, part) => `instr(${bytes}, ${part}) > 0`,
};

/** Lists for operators. A lookup is one transaction, and so sees one state of the database. */
export function operatorLists(
  database: Database,
): OperationTable<
  "listCalls" | "findCallDetails" | "listPayments" | "listDeadLetterGroups" | "listMovements"
> {
  const queriesAt = (now: number) => new ListQueries(DIALECT, () => now);

  const selectMovements = database.prepare<MovementRow>(
    `SELECT id, ${MOVEMENT_COLUMN_LIST} FROM movements WHERE (at, id) > (?, ?) AND at < ? ORDER BY at, id LIMIT ?`,
  );

  function run<Result>(lookup: Lookup<Result>): Result {
    let step = lookup.next([]);
    while (!step.done) {
      const { sql, values } = step.value;
      step = lookup.next(database.prepare(sql).all(values));
    }
    return step.value;
  }

  return {
    listCalls: (now, filter) => run(listCalls(queriesAt(now), filter)),
    findCallDetails: (now, callId) => run(findCallDetails(queriesAt(now), callId)),
    listPayments: (now, filter) => run(listPayments(queriesAt(now), filter)),
    listMovements: (_now, { after, until, limit }) =>
      selectMovements.all([after.at, after.id, until, limit]).map(toMovement),
    listDeadLetterGroups: (now, limit) => run(listDeadLetterGroups(queriesAt(now), limit)),
  };
}
