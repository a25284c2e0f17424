import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import pino from "pino";
import { onTestFinished, vi } from "vitest";
import type { RunnerConfig } from "../../../src/config/config.ts";
import type { HttpRunners } from "../../../src/parts/outbound/http-runners.ts";
import type { PushTargetConfig } from "../../../src/parts/push/config.ts";
import { pushRunners } from "../../../src/parts/push/push-target.ts";
import type { Store } from "../../../src/store/store.ts";
import { type Delivery, startDelivery } from "../../delivery/harness.ts";
import { listenHttp } from "../../helpers/http-listener.ts";

export const SECRET = `whsec_${Buffer.from("a key of twenty-four bytes").toString("base64")}`;

/** One request that a target got. */
export interface Pushed {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly callId: number;
  readonly attempt: number;
  readonly response: ServerResponse;
  /** Resolves when jobgate ends the connection without having got an answer. */
  readonly aborted: Promise<void>;
}

export interface Target {
  readonly url: string;
  readonly port: number;
  readonly requests: Pushed[];
  stop(): Promise<void>;
}

/** Starts an HTTP server that `answer` answers for, for one test. */
export async function startTarget(answer: (pushed: Pushed) => void, port = 0): Promise<Target> {
  const requests: Pushed[] = [];
  const listener = await listenHttp({
    port,
    handler: (request, response) => {
      void buffer(request).then((body) => {
        const pushed = {
          headers: request.headers,
          body,
          callId: Number(request.headers["ce-id"]),
          attempt: Number(request.headers["ce-attempt"]),
          response,
          aborted: new Promise<void>((resolve) => {
            response.once("close", () => {
              if (!response.writableFinished) resolve();
            });
          }),
        };
        requests.push(pushed);
        answer(pushed);
      });
    },
  });
  onTestFinished(() => listener.stop());
  return { url: `${listener.url}/jobs`, port: listener.port, requests, stop: () => listener.stop() };
}

/** Answers with a status, a body and headers. */
export function answer(
  { response }: Pushed,
  status = 200,
  body = "",
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, headers).end(body);
}

export interface Pushing extends Delivery {
  readonly push: HttpRunners<PushTargetConfig>;
  /** Resolves when no JobCall waits or is out. */
  readonly empty: () => Promise<boolean>;
}

const RUNNER: RunnerConfig = {
  bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
  tokens: [],
  leaseMs: 600_000,
  maxAttempts: 10,
  retryBaseMs: 1,
  retryMaxMs: 5,
  drainMs: 0,
};

/** Starts jobgate's delivery on a real store, with targets, for one test. */
export async function startPush(
  targets: readonly (Partial<PushTargetConfig> & { readonly url: string })[],
  config: Partial<RunnerConfig> = {},
  given?: Store,
): Promise<Pushing> {
  const runner = { ...RUNNER, ...config };
  const delivery = await startDelivery({ ...runner, ...(given && { store: given }) });
  const { store, server } = delivery;
  const push = pushRunners({
    dispatcher: server.dispatcher,
    config: { runner },
    logger: pino({ level: "silent" }),
  });
  push.use(targets.map(pushTarget));
  onTestFinished(async () => {
    await server.stop();
    await push.stop();
  });
  const empty = async () => {
    const { ready, leased } = (await store.totals()).calls;
    return ready + leased === 0;
  };
  return { ...delivery, push, empty };
}

export function pushTarget(target: Partial<PushTargetConfig> & { readonly url: string }): PushTargetConfig {
  return { jobIds: [], concurrency: 8, timeoutMs: 120_000, secrets: [], ...target };
}

/** Records the results that the store is asked to keep. */
export function watchResults({ store }: Delivery) {
  const ack = vi.spyOn(store, "ack");
  return () => ack.mock.calls.map(([{ callId }, result]) => ({ callId, result }));
}
