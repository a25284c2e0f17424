import { pino } from "pino";
import type { WebhookAuth, WebhookEndpoint, WebhooksConfig } from "../../src/config/config.ts";
import { parseIpRange } from "../../src/core/network-address.ts";
import { decodeJobCall, encodeDelivery } from "../../src/delivery/job-call-codec.ts";
import { COMMIT_NUMBER_PRAGMA } from "../../src/store/sqlite/database-header.ts";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { readPragma } from "../../src/store/sqlite/open-database.ts";
import type { Store } from "../../src/store/store.ts";
import { WebhookGateway } from "../../src/webhooks/gateway.ts";
import { sendRaw } from "../helpers/raw-request.ts";
import { openTestStore } from "../helpers/test-store.ts";

export const LOCAL = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
export const MAX_BODY = 4_096;
export const UNAUTHORIZED = {
  status: 401,
  text: '{"error":"unauthorized","code":"unauthorized"}',
} as const;

export type Headers = Readonly<Record<string, string>>;

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The body as JSON, of an answer that is. */
  readonly json: Readonly<Record<string, unknown>>;
}

/** A JobCall as a runner sees it. */
export interface TakenCall {
  readonly callId: number;
  readonly jobId: bigint;
  readonly serviceId: bigint;
  readonly body: Buffer;
  readonly metadata: Readonly<Record<string, string>>;
}

/** A gateway on a new store without a runner, so that nothing else writes to it. */
export interface WebhooksUnderTest {
  readonly url: string;
  readonly store: Store;
  readonly gateway: WebhookGateway;
  /** Log lines. */
  readonly log: readonly Readonly<Record<string, unknown>>[];
  /** The gateway's time, Unix milliseconds; the real time when undefined. */
  now: number | undefined;
  /** Reloads with other endpoints. */
  use(endpoints: readonly WebhookEndpoint[], more?: Partial<WebhooksConfig>): void;
  post(path: string, headers: Headers, body?: string | Uint8Array): Promise<Answer>;
  /** Sends raw header lines, in Latin-1, so that one can be repeated or have any byte. */
  postLines(path: string, lines: readonly string[], body?: string | Uint8Array): Promise<Answer>;
  get(target: string): Promise<Answer>;
  /** Returns the number of JobCalls that are not taken yet. */
  waiting(): Promise<number>;
  /** Takes the waiting JobCalls. */
  take(): Promise<TakenCall[]>;
  /** Returns the number of the last commit that wrote anything. */
  lastCommit(): number;
  stop(): Promise<void>;
}

export async function startWebhooks(
  endpoints: readonly WebhookEndpoint[],
  options: { maxPending?: number; config?: Partial<WebhooksConfig> } = {},
): Promise<WebhooksUnderTest> {
  const log: Record<string, unknown>[] = [];
  const logger = pino({ level: "debug" }, { write: (line: string) => void log.push(JSON.parse(line)) });
  const { maxPending = 100_000 } = options;
  let underTest: WebhooksUnderTest | undefined;
  const clock = () => underTest?.now ?? Date.now();
  const opened = await openTestStore({ maxPending, logger, clock });
  const { store } = opened;
  const config = (list: readonly WebhookEndpoint[], more?: Partial<WebhooksConfig>): WebhooksConfig => ({
    bindAddress: LOCAL,
    maxBodyBytes: MAX_BODY,
    endpoints: list,
    ...more,
  });
  const gateway = new WebhookGateway({
    config: config(endpoints, options.config),
    serviceId: 42n,
    intake: store,
    logger,
    clock,
  });
  await gateway.start();
  const url = `http://${gateway.address}`;

  async function send(line: string, lines: readonly string[], body: string | Uint8Array): Promise<Answer> {
    const bytes = Buffer.from(body);
    const always = ["host: a", "connection: close", `content-length: ${bytes.length}`];
    const head = [`${line} HTTP/1.1`, ...always, ...lines].join("\r\n");
    const [answer] = await sendRaw(url, Buffer.concat([Buffer.from(`${head}\r\n\r\n`, "latin1"), bytes]));
    if (answer === undefined) throw new Error(`no answer to ${line}`);
    const { status, headers, body: text } = answer;
    return {
      status,
      text,
      headers,
      get json() {
        return JSON.parse(text) as Record<string, unknown>;
      },
    };
  }

  underTest = {
    url,
    store,
    gateway,
    log,
    now: undefined,
    use: (list, more) => gateway.reload(config(list, more)),
    post: (path, headers, body = "") =>
      send(
        `POST ${path}`,
        Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
        body,
      ),
    postLines: (path, lines, body = "") => send(`POST ${path}`, lines, body),
    get: (target) => send(`GET ${target}`, [], ""),
    waiting: async () => (await store.totals()).calls.ready,
    async take() {
      const { calls } = await store.claim({
        ...{ limit: 1_000, jobIds: [], leaseMs: 60_000, maxAttempts: 1, subscriber: "test" },
      });
      await Promise.all(calls.map((lease) => store.ack(lease)));
      return calls.map((call) => {
        const { callId, jobId, serviceId, body, metadata } = decodeJobCall(
          Buffer.concat(encodeDelivery(call, 60_000)),
        );
        return { callId: Number(callId), jobId, serviceId, body: Buffer.from(body), metadata };
      });
    },
    lastCommit() {
      const database = openDriver(opened.path);
      const commit = Number(readPragma(database, COMMIT_NUMBER_PRAGMA));
      database.close();
      return commit;
    },
    async stop() {
      await gateway.stop();
      await opened.stop();
    },
  };
  return underTest;
}

/** Names secrets as the configuration does. */
export function named(...secrets: readonly string[]): { name: string; secret: string }[] {
  return secrets.map((secret, i) => ({ name: `secrets[${i}]`, secret }));
}

export function endpoint(
  path: string,
  auth: WebhookAuth,
  more: Partial<WebhookEndpoint> = {},
): WebhookEndpoint {
  return { path, jobId: 7n, auth, ...more };
}

export function ranges(...texts: readonly string[]) {
  return texts.map((text) => {
    const range = parseIpRange(text);
    if (range === undefined) throw new Error(`${text} is no range`);
    return range;
  });
}
