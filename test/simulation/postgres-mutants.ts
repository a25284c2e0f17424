import type { WorldMutant } from "./bundle-gateway.ts";

const BATCH = "parts/postgres/batch";
const COMMIT = "parts/postgres/commit/commit-batch.ts";
const OUTCOME = "parts/postgres/commit/outcome.ts";
const PAYMENTS = `${BATCH}/payments.ts`;
const ROWS = `${BATCH}/module-rows.ts`;

/** Guards of the Postgres store that are missed in some world whose gateways share a Postgres. */
export const POSTGRES_MUTANTS: readonly WorldMutant[] = [
  {
    name: "an unanswered commit counts as made",
    ...{ file: COMMIT, from: "if (!committed) throw attempt.error;", to: "" },
  },
  {
    name: "a batch is not noted",
    ...{ file: COMMIT, from: "sql.run(NOTE_BATCH, [id, isProbe]),", to: "" },
  },
  {
    name: "a payment that was begun elsewhere begins again",
    ...{ file: PAYMENTS, from: "if (written.length !== this.#begun.length)", to: "if (written.length < 0)" },
  },
  {
    name: "JobCalls are claimed without their locks",
    file: `${BATCH}/claims.ts`,
    ...{
      from: "WHERE state = 'ready' ORDER BY call_id LIMIT $1 FOR UPDATE SKIP LOCKED),",
      to: "WHERE state = 'ready' ORDER BY call_id LIMIT $1),",
    },
  },
  {
    name: "JobCalls are read without their locks",
    file: `${BATCH}/call-rows.ts`,
    ...{ from: "ORDER BY call_id FOR UPDATE`", to: "ORDER BY call_id`" },
  },
  {
    name: "rows of modules are read without their locks",
    ...{ file: ROWS, from: " FOR UPDATE OF held`", to: "`" },
  },
  {
    name: "a row of a module that was added elsewhere is added again",
    ...{ file: ROWS, from: "if (inserted.length !== news.length)", to: "if (inserted.length < 0)" },
  },
  {
    name: "a delivery that was accepted elsewhere is accepted again",
    file: `${BATCH}/accepts.ts`,
    ...{ from: "if (written.length !== fresh.length)", to: "if (written.length < 0)" },
  },
  {
    name: "a payment that was decided elsewhere is decided again",
    file: `${BATCH}/payment-rows.ts`,
    ...{ from: "if (decided.length !== changed.length)", to: "if (decided.length < 0)" },
  },
  {
    name: "facts beside a payment are from before its decision",
    file: `${BATCH}/known-payments.ts`,
    ...{ from: "state_before !== state)", to: "state_before === undefined && state === undefined)" },
  },
  {
    name: "a watch that was ended elsewhere is ended again",
    file: `${BATCH}/payment-rows.ts`,
    ...{ from: "if (unwatched.length !== ended.length)", to: "if (unwatched.length < 0)" },
  },
  {
    name: "a commit that no standby has is found",
    file: OUTCOME,
    ...{
      from: "UPDATE jobgate.batches SET is_abandoned = is_abandoned WHERE id = $1 RETURNING is_abandoned",
      to: "SELECT is_abandoned FROM jobgate.batches WHERE id = $1",
    },
  },
];
