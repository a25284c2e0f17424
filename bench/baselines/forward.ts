import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import { type Dispatcher, Pool } from "undici";

/* Forwards HTTP to the origin that it is given, with node:http and undici, and does nothing else. Prints its URL. */

const pool = new Pool(process.argv[2] ?? "", { connections: 256 });

async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { method = "GET", url: path = "/" } = incoming;
  const hasBody = incoming.headers["content-length"] !== undefined;
  const { statusCode, headers, body } = await pool.request({
    ...{ method: method as Dispatcher.HttpMethod, path, body: hasBody ? incoming : null },
    headers: { accept: incoming.headers.accept ?? "*/*" },
  });
  const { connection: _connection, "keep-alive": _keepAlive, ...kept } = headers;
  outgoing.writeHead(statusCode, kept);
  await pipeline(body, outgoing);
}

const server = createServer((incoming, outgoing) => {
  forward(incoming, outgoing).catch(() => outgoing.destroy());
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
