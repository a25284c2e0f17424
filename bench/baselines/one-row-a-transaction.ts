import pg from "pg";
import { serveBaseline } from "./serve.ts";

/** Simple Postgres baseline: one row per transaction. Argument: the database's URL. */
const pool = new pg.Pool({ connectionString: process.argv[2], max: 20 });
await pool.query(
  "CREATE TABLE plain_jobs (call_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)",
);
const insert = { name: "insert", text: "INSERT INTO plain_jobs (body) VALUES ($1) RETURNING call_id" };
await serveBaseline(async (body) => {
  const { rows } = await pool.query<{ call_id: string }>({ ...insert, values: [body] });
  return Number(rows[0]?.call_id);
});
