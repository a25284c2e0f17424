import { connect } from "node:net";
import { type LoadTarget, percentile } from "./load.ts";

/*
 * A process that sends requests over raw sockets, each with one request in flight. It does as little as it can for
 * each, so that the server is the bottleneck. Argument: a LoadTarget in JSON. Prints a GeneratedLoad in JSON.
 */

export interface GeneratedLoad {
  readonly requests: number;
  readonly seconds: number;
  /** Share of one core that this process used: near 1, it was the bottleneck and not the server. */
  readonly cpuShare: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

const HEAD_END = Buffer.from("\r\n\r\n");

const target = JSON.parse(process.argv[2] ?? "") as LoadTarget;
const urls = target.urls.map((url) => new URL(url));
const headers = Object.entries({
  host: urls[0]?.host ?? "",
  ...target.headers,
  "content-length": String(Buffer.byteLength(target.body)),
});
const head = `POST ${urls[0]?.pathname} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
const fixed = Buffer.from(head + target.body);
const latencies: number[] = [];
let count = 0;

function nextRequest(): Buffer {
  count += 1;
  return target.isUnique === true ? Buffer.from(head + String(count).padEnd(target.body.length)) : fixed;
}

/** Returns the length of the first answer in `bytes`; undefined while it is incomplete. Throws on another status. */
function answerLength(bytes: Buffer): number | undefined {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return undefined;
  const answer = bytes.toString("latin1", 0, end);
  if (!answer.startsWith(String(target.status), 9)) throw new Error(`unexpected answer: ${answer}`);
  const length = end + HEAD_END.length + Number(/content-length: (\d+)/i.exec(answer)?.[1]);
  return bytes.length < length ? undefined : length;
}

function sendTo({ hostname, port }: URL, endsAt: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    let pending: Buffer = Buffer.alloc(0);
    let sentAt = 0;
    const next = () => {
      sentAt = performance.now();
      if (sentAt < endsAt) socket.write(nextRequest());
      else socket.end();
    };
    socket.on("connect", next);
    socket.on("data", (chunk) => {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
      try {
        const length = answerLength(pending);
        if (length === undefined) return;
        pending = pending.subarray(length);
      } catch (error) {
        return void socket.destroy(error as Error);
      }
      latencies.push(performance.now() - sentAt);
      next();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve());
  });
}

const startedAt = performance.now();
const cpuBefore = process.cpuUsage();
const endsAt = startedAt + target.seconds * 1000;
await Promise.all(
  Array.from({ length: target.connections }, (_, i) => sendTo(urls[i % urls.length] as URL, endsAt)),
);
const seconds = (performance.now() - startedAt) / 1000;
const { user, system } = process.cpuUsage(cpuBefore);
const result: GeneratedLoad = {
  requests: latencies.length,
  seconds,
  cpuShare: (user + system) / 1e6 / seconds,
  p50: percentile(latencies, 0.5),
  p99: percentile(latencies, 0.99),
};
console.log(JSON.stringify(result));
