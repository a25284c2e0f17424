import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { BoundedClient } from "./bounded-client.ts";
import { clientConfig, type PostgresAddress, type PostgresTimeouts } from "./connect.ts";

/** What a replica tells the others. */
export interface News {
  /** JobCalls are ready. */
  readonly hasWork: boolean;
  /** JobCalls whose leases it ended, though another had given them out. */
  readonly endedCallIds: readonly number[];
}

/** How replicas tell each other of work: LISTEN and NOTIFY, on a connection of its own. */
export interface WorkChannel {
  /**
   * Tells all other replicas, soon. What is announced while they are being told is told together, afterwards. May be lost
   * with the connection, or be too much to tell; they look for themselves as well.
   */
  announce(news: News): void;
  /** Listens on a new connection, by the same URL. */
  reconnect(): void;
  close(): Promise<void>;
}

export interface WorkChannelOptions {
  readonly address: PostgresAddress;
  readonly timeouts: PostgresTimeouts;
  readonly logger: Logger | undefined;
  /** Another replica has work, or may have had while the connection was broken. */
  readonly onWork: () => void;
  readonly onEnded: (callIds: readonly number[]) => void;
}

const CHANNEL = "jobgate_work";
const MIN_RECONNECT_MS = 50;
const MAX_RECONNECT_MS = 2_000;
/** Postgres takes less than 8000 bytes in one notification, and an id has up to 16 digits. */
const MAX_ENDED_TOLD = 400;

/** A notification's payload. */
interface Message extends News {
  /** Which replica tells of it. */
  readonly from: string;
}

/** Connects and goes on connecting, by itself, until it is closed. */
export function openWorkChannel(options: WorkChannelOptions): WorkChannel {
  const { address, timeouts, logger, onWork, onEnded } = options;
  /** Tells a replica's own announcements from others'. */
  const self = randomUUID();
  let connected: BoundedClient | undefined;
  let connecting: Promise<void> | undefined;
  let reconnectMs = MIN_RECONNECT_MS;
  let timer: NodeJS.Timeout | undefined;
  let isTelling = false;
  let toTell: News | undefined;
  let closed = false;

  function connect(): void {
    connecting = listen().catch((error: Error) => {
      logger?.warn(
        { reason: error.message, retryInMs: reconnectMs },
        "cannot listen for other replicas' work",
      );
      reconnectLater();
    });
  }

  async function listen(): Promise<void> {
    const client = new BoundedClient(clientConfig(address, timeouts));
    client.on("error", (error) =>
      logger?.warn({ reason: error.message }, "lost the connection that listens"),
    );
    client.on("notification", ({ payload }) => {
      const { from, hasWork, endedCallIds } = readMessage(payload);
      if (from === self) return;
      if (hasWork) onWork();
      if (endedCallIds.length > 0) onEnded(endedCallIds);
    });
    try {
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
    } catch (error) {
      void client.end();
      throw error;
    }
    client.once("end", () => {
      connected = undefined;
      reconnectLater();
    });
    if (closed) return void client.end();
    connected = client;
    reconnectMs = MIN_RECONNECT_MS;
    // What was announced until now was not heard.
    onWork();
  }

  function reconnectLater(): void {
    if (closed) return;
    clearTimeout(timer);
    timer = setTimeout(connect, reconnectMs);
    reconnectMs = Math.min(MAX_RECONNECT_MS, reconnectMs * 2);
  }

  function announce({ hasWork, endedCallIds }: News): void {
    const ended = [...(toTell?.endedCallIds ?? []), ...endedCallIds].slice(0, MAX_ENDED_TOLD);
    toTell = { hasWork: hasWork || (toTell?.hasWork ?? false), endedCallIds: ended };
    tell();
  }

  function tell(): void {
    if (isTelling || toTell === undefined) return;
    const message: Message = { from: self, ...toTell };
    toTell = undefined;
    if (connected === undefined) return;
    isTelling = true;
    connected
      .query({
        name: "notify",
        text: `SELECT pg_notify('${CHANNEL}', $1)`,
        values: [JSON.stringify(message)],
      })
      // A time-out has closed the connection, which is told of there.
      .catch(() => undefined)
      .finally(() => {
        isTelling = false;
        tell();
      });
  }

  connect();
  return {
    announce,
    reconnect: () => void connected?.end(),
    async close() {
      closed = true;
      clearTimeout(timer);
      await connecting;
      await connected?.end();
    },
  };
}

/** Whatever else is on the channel may be a replica of another version, that has work. */
function readMessage(payload = ""): Message {
  try {
    const message = JSON.parse(payload) as Partial<Message> | null;
    if (Array.isArray(message?.endedCallIds)) return message as Message;
  } catch {
    // Not ours.
  }
  return { from: payload, hasWork: true, endedCallIds: [] };
}
