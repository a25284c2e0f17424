import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Starts a bare node:http server that passes each body and path to `accept` and answers 202 as jobgate does. Prints its URL. */
export async function serveBaseline(
  accept: (body: Uint8Array, path: string) => number | Promise<number>,
): Promise<void> {
  const answer = async (outgoing: ServerResponse, body: Buffer, path: string) => {
    const json = JSON.stringify({ status: "accepted", job_id: 1, call_id: await accept(body, path) });
    outgoing.writeHead(202, { "content-type": "application/json", "content-length": json.length });
    outgoing.end(json);
  };
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => void answer(outgoing, Buffer.concat(chunks), incoming.url ?? ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}
