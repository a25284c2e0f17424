import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import { serveBaseline } from "./serve.ts";

/** Simple baseline: one durable insert per request. */
const database = new Database(join(mkdtempSync(join(tmpdir(), "jobgate-bench-")), "baseline.db"));
database.pragma("journal_mode = WAL");
database.pragma("synchronous = FULL");
database.exec("CREATE TABLE jobs (call_id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)");
const insert = database.prepare("INSERT INTO jobs (body) VALUES (?)");
await serveBaseline((body) => Number(insert.run([body]).lastInsertRowid));
