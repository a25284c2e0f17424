import { once } from "node:events";
import { createServer } from "node:net";

/** Below the ports that systems give to connections and to servers on port 0, so that none of those takes one away. */
const FIRST_PORT = 11_000;
/** Each worker of a run has its own: nobody else takes a port between the look and its use. */
const PORTS_PER_WORKER = 1_800;
const WORKERS = 12;

const first = FIRST_PORT + (Number(process.env.VITEST_POOL_ID ?? 0) % WORKERS) * PORTS_PER_WORKER;
/** Further runs on this machine begin elsewhere. */
let next = process.pid % PORTS_PER_WORKER;

/** Returns a port of 127.0.0.1 that nothing listens on, for servers that keep their address over a restart. */
export async function freePort(): Promise<number> {
  for (let looks = 0; looks < PORTS_PER_WORKER; looks++) {
    const port = first + (next++ % PORTS_PER_WORKER);
    if (await isFree(port)) return port;
  }
  throw new Error(`no port is free from ${first} to ${first + PORTS_PER_WORKER - 1}`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
