import { randomUUID } from "node:crypto";
import pg, { type Client } from "pg";
import type { Logger } from "pino";
import { clientConfig, type PostgresAddress, type PostgresTimeouts } from "./connect.ts";

/** How replicas tell each other of work: LISTEN and NOTIFY, on a connection of its own. */
export interface WorkChannel {
  /**
   * Tells all other replicas, soon. What is announced while they are being told is told once, afterwards. May be lost
   * with the connection; they look for themselves as well.
   */
  announce(): void;
  close(): Promise<void>;
}

export interface WorkChannelOptions {
  readonly address: PostgresAddress;
  readonly timeouts: PostgresTimeouts;
  readonly logger: Logger | undefined;
  /** Another replica has work, or may have had while the connection was broken. */
  readonly onWork: () => void;
}

const CHANNEL = "jobgate_work";
const MIN_RECONNECT_MS = 50;
const MAX_RECONNECT_MS = 2_000;

/** Connects and goes on connecting, by itself, until it is closed. */
export function openWorkChannel(options: WorkChannelOptions): WorkChannel {
  const { address, timeouts, logger, onWork } = options;
  /** Tells a replica's own announcements from others'. */
  const self = randomUUID();
  let connected: Client | undefined;
  let connecting: Promise<void> | undefined;
  let reconnectMs = MIN_RECONNECT_MS;
  let timer: NodeJS.Timeout | undefined;
  let isTelling = false;
  let isMoreToTell = false;
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
    const client = new pg.Client(clientConfig(address, timeouts));
    client.on("error", (error) =>
      logger?.warn({ reason: error.message }, "lost the connection that listens"),
    );
    client.on("notification", ({ payload }) => {
      if (payload !== self) onWork();
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

  function tell(): void {
    if (isTelling) {
      isMoreToTell = true;
      return;
    }
    if (connected === undefined) return;
    isTelling = true;
    connected
      .query({ name: "notify", text: `SELECT pg_notify('${CHANNEL}', $1)`, values: [self] })
      // A time-out has closed the connection, which is told of there.
      .catch(() => undefined)
      .finally(() => {
        isTelling = false;
        if (!isMoreToTell) return;
        isMoreToTell = false;
        tell();
      });
  }

  connect();
  return {
    announce: tell,
    async close() {
      closed = true;
      clearTimeout(timer);
      await connecting;
      await connected?.end();
    },
  };
}
