import { parentPort } from "node:worker_threads";
import { serveDatabase } from "./serve-database.ts";

// An entry point of its own, so that importing the code never takes over the port of somebody else's thread.
if (parentPort !== null) serveDatabase(parentPort);
