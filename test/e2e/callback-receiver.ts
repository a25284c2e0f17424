// Receives callbacks until it is killed, and notes each before it answers.
import { openSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";

const [port, logPath] = process.argv.slice(2);
if (port === undefined || logPath === undefined) throw new Error("expected a port and the path of a log");

const log = openSync(logPath, "a");
createServer((request, response) => {
  void buffer(request).then((body) => {
    // Synchronous, and to a file: the note survives a kill.
    writeSync(log, `${String(request.headers["webhook-id"])} ${body.toString()}\n`);
    response.writeHead(204).end();
  });
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
