import type { WorldMutant } from "./mutant.ts";

const BATCH = "parts/postgres/batch";
const COMMIT = "parts/postgres/commit/commit-batch.ts";
const OUTCOME = "parts/postgres/commit/outcome.ts";
const PAYMENTS = `${BATCH}/payments.ts`;
const ROWS = `${BATCH}/module-rows.ts`;

/** Guards of the Postgres store that are missed in some world whose gateways share a Postgres. */
export const POSTGRES_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a commit is taken for made although its answer was lost",
    parts: ["webhooks"],
    seed: 11,
    ...{ file: COMMIT, from: "if (!committed) throw attempt.error;", to: "" },
  },
  {
    name: "a batch is not noted",
    parts: [],
    seed: 192,
    ...{ file: COMMIT, from: "sql.run(NOTE_BATCH, [id, isNoted]),", to: "" },
  },
  {
    name: "a payment that was begun elsewhere begins again",
    parts: [],
    seed: 107,
    ...{ file: PAYMENTS, from: "if (written.length !== this.#begun.length)", to: "if (written.length < 0)" },
  },
  {
    name: "JobCalls are claimed without their locks",
    seed: 1,
    file: `${BATCH}/claims.ts`,
    ...{
      from: "ORDER BY call_id LIMIT $1 FOR UPDATE OF job_calls SKIP LOCKED),",
      to: "ORDER BY call_id LIMIT $1),",
    },
  },
  {
    name: "JobCalls are read without their locks",
    parts: ["long work"],
    seed: 16,
    file: `${BATCH}/call-rows.ts`,
    ...{ from: "ORDER BY call_id FOR UPDATE`", to: "ORDER BY call_id`" },
  },
  {
    name: "rows of modules are read without their locks",
    parts: ["order and limits"],
    seed: 1,
    file: ROWS,
    from: `ORDER BY \${keyColumns} FOR UPDATE OF held\``,
    to: `ORDER BY \${keyColumns}\``,
  },
  {
    name: "a row of a module that was added elsewhere is added again",
    seed: 9,
    ...{ file: ROWS, from: "if (inserted.length !== news.length)", to: "if (inserted.length < 0)" },
  },
  {
    name: "a delivery that was accepted elsewhere is accepted again",
    seed: 16,
    file: `${BATCH}/accepts.ts`,
    ...{ from: "if (written.length !== fresh.length)", to: "if (written.length < 0)" },
  },
  {
    name: "a commit that no standby has is found",
    seed: 11,
    file: OUTCOME,
    ...{
      from: "UPDATE jobgate.batches SET is_abandoned = is_abandoned WHERE id = $1 RETURNING is_abandoned",
      to: "SELECT is_abandoned FROM jobgate.batches WHERE id = $1",
    },
  },
  {
    name: "a callback is sent that a fail-over can lose",
    seed: 3_000_064,
    file: "parts/callbacks/callback-sender.ts",
    ...{ from: "!this.#parts.store.isShared || (await this.#lock.renew())", to: "true" },
  },
];
