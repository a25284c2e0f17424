import { Agent, type IncomingMessage, request, type ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { listenHttp } from "../test/helpers/http-listener.ts";

export interface TimingProxy {
  readonly url: string;
  reset(): void;
  /** Milliseconds since the reset during which this proxy or another had a request under way. */
  busyMs(...others: readonly TimingProxy[]): number;
  readonly spans: readonly (readonly [from: number, to: number])[];
  stop(): Promise<void>;
}

/** Forwards HTTP to `target` and records when requests were under way, its own time included. */
export async function startTimingProxy(target: string): Promise<TimingProxy> {
  let spans: [number, number][] = [];
  const agent = new Agent({ keepAlive: true });

  async function pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const span: [number, number] = [performance.now(), Number.POSITIVE_INFINITY];
    spans.push(span);
    const { method, headers, url = "/" } = incoming;
    const upstream = request(new URL(url, target), { method, headers, agent });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      upstream.on("response", resolve).on("error", reject);
    });
    await pipeline(incoming, upstream);
    const answer = await answered;
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    await pipeline(answer, outgoing);
    span[1] = performance.now();
  }

  const listener = await listenHttp({
    handler: (incoming, outgoing) => {
      pass(incoming, outgoing).catch(() => outgoing.destroy());
    },
  });
  return {
    url: listener.url,
    get spans() {
      return spans;
    },
    reset() {
      spans = [];
    },
    busyMs: (...others) => lengthOfUnion([...spans, ...others.flatMap((other) => other.spans)]),
    async stop() {
      agent.destroy();
      await listener.stop();
    },
  };
}

function lengthOfUnion(spans: readonly (readonly [number, number])[]): number {
  let length = 0;
  let covered = 0;
  for (const [from, to] of [...spans].sort(([left], [right]) => left - right)) {
    length += Math.max(0, to - Math.max(from, covered));
    covered = Math.max(covered, to);
  }
  return length;
}
