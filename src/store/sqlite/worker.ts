import { parentPort } from "node:worker_threads";
import { serveDatabase } from "./serve-database.ts";

// A separate entry point, so that importing the code never uses the port of an unrelated thread.
if (parentPort !== null) serveDatabase(parentPort);
