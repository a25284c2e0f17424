import { pino } from "pino";
import { jsonResponse } from "../../src/http/response.ts";
import type { RouteTable } from "../../src/http/routes.ts";
import { HttpServer } from "../../src/http/server.ts";

/**
 * Serves one route on jobgate's HTTP server that passes the body to `accept` and answers 202: a webhook without store
 * and runner. Prints its URL.
 */
export async function serveBaseline(accept: (body: Uint8Array) => number | Promise<number>): Promise<void> {
  const server = new HttpServer({
    address: { kind: "tcp", host: "127.0.0.1", port: 0 },
    logger: pino({ level: "silent" }),
  });
  const routes: RouteTable = (path) =>
    path === "/hooks/bench"
      ? {
          POST: async (request) => {
            const body = await request.readBody(1_048_576);
            return jsonResponse(202, { status: "accepted", job_id: 1n, call_id: await accept(body) });
          },
        }
      : undefined;
  await server.mount(routes);
  console.log(`http://${server.address}`);
}
