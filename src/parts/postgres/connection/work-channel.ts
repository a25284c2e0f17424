import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { BoundedClient, type PostgresTimeouts } from "./connect.ts";
import type { Servers } from "./servers.ts";

/** Announcement of a replica to the other replicas. */
interface News {
  /** True if JobCalls are ready. */
  readonly hasWork: boolean;
  /** JobCalls whose leases the replica ended although another replica had granted them. */
  readonly endedCallIds: readonly number[];
}

/** Listeners to news from other replicas. */
export interface WorkListeners {
  /** Called when another replica has work, or may have had work while the connection was broken. */
  readonly onWork: () => void;
  readonly onEnded: (callIds: readonly number[]) => void;
}

interface WorkChannelOptions extends WorkListeners {
  readonly servers: Servers;
  readonly timeouts: PostgresTimeouts;
  readonly logger: Logger | undefined;
}

const CHANNEL = "jobgate_work";
const MIN_RECONNECT_MS = 50;
const MAX_RECONNECT_MS = 2_000;
/** Postgres accepts less than 8000 bytes in one notification, and an id has up to 16 digits. */
const MAX_ENDED_TOLD = 400;

/** Payload of a notification. */
interface Message extends News {
  /** The replica that sent it. */
  readonly from: string;
}

/**
 * Announces work among replicas with LISTEN and NOTIFY, on a connection of its own. Connects, and reconnects, until it is
 * closed.
 */
export class WorkChannel {
  readonly #options: WorkChannelOptions;
  /** Distinguishes a replica's own announcements from the announcements of others. */
  readonly #self = randomUUID();
  #connected: BoundedClient | undefined;
  #connecting: Promise<void> | undefined;
  #reconnectMs = MIN_RECONNECT_MS;
  #timer: NodeJS.Timeout | undefined;
  #isSending = false;
  #toSend: News | undefined;
  #closed = false;

  constructor(options: WorkChannelOptions) {
    this.#options = options;
    this.#connect();
  }

  /**
   * Announces news to all other replicas soon. Merges the news that comes while an announcement is being sent. News may
   * be lost with the connection, or cut to the size of a notification, so replicas also poll.
   */
  announce({ hasWork, endedCallIds }: News): void {
    const ended = [...(this.#toSend?.endedCallIds ?? []), ...endedCallIds].slice(0, MAX_ENDED_TOLD);
    this.#toSend = { hasWork: hasWork || (this.#toSend?.hasWork ?? false), endedCallIds: ended };
    this.#send();
  }

  /** Listens on a new connection, to the server in use. */
  reconnect(): void {
    void this.#connected?.end();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#connecting;
    await this.#connected?.end();
  }

  #connect(): void {
    this.#connecting = this.#listen().catch((error: Error) => {
      this.#options.logger?.warn(
        { reason: error.message, retryInMs: this.#reconnectMs },
        "cannot listen for other replicas' work",
      );
      this.#reconnectLater();
    });
  }

  async #listen(): Promise<void> {
    const { servers, timeouts, logger, onWork, onEnded } = this.#options;
    const client = new BoundedClient(servers.address, timeouts);
    client.on("error", (error) =>
      logger?.warn({ reason: error.message }, "lost the connection that listens for other replicas' work"),
    );
    client.on("notification", ({ payload }) => {
      const { from, hasWork, endedCallIds } = readMessage(payload);
      if (from === this.#self) return;
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
      this.#connected = undefined;
      this.#reconnectLater();
    });
    if (this.#closed) return void client.end();
    this.#connected = client;
    this.#reconnectMs = MIN_RECONNECT_MS;
    // Announcements until now were not received.
    onWork();
  }

  #reconnectLater(): void {
    if (this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), this.#reconnectMs);
    this.#reconnectMs = Math.min(MAX_RECONNECT_MS, this.#reconnectMs * 2);
  }

  #send(): void {
    if (this.#isSending || this.#toSend === undefined) return;
    const message: Message = { from: this.#self, ...this.#toSend };
    this.#toSend = undefined;
    if (this.#connected === undefined) return;
    this.#isSending = true;
    this.#connected
      .query({
        name: "notify",
        text: `SELECT pg_notify('${CHANNEL}', $1)`,
        values: [JSON.stringify(message)],
      })
      // A time-out closes the connection, and the end of the connection is handled elsewhere.
      .catch(() => undefined)
      .finally(() => {
        this.#isSending = false;
        this.#send();
      });
  }
}

/** Reads a notification. A notification in another format may come from a replica of another version that has work. */
function readMessage(payload = ""): Message {
  try {
    const message = JSON.parse(payload) as Partial<Message> | null;
    if (Array.isArray(message?.endedCallIds)) return message as Message;
  } catch {
    // The payload has another format.
  }
  return { from: payload, hasWork: true, endedCallIds: [] };
}
