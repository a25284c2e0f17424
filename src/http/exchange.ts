import type { ServerResponse } from "node:http";
import type { ErrorCode } from "../core/errors.ts";
import type { HeaderPairs } from "./cors.ts";
import type { Incoming } from "./incoming.ts";
import { HttpRequest } from "./request.ts";
import type { TableOwner } from "./routes.ts";
import type { Uploads } from "./uploads.ts";

/** Route recorded for requests that match none. */
export const UNMATCHED = "unmatched";

/** One request and its answer, as logs, metrics and traces describe them. */
export class Exchange extends HttpRequest {
  readonly incoming: Incoming;
  readonly outgoing: ServerResponse;
  /** `performance.now()` at the end of the request's headers. */
  readonly startedAt = performance.now();
  /** The listener that owns the route. */
  owner: TableOwner;
  /** The route's pattern, never the raw path: metric labels must be bounded. */
  route = UNMATCHED;
  /** Present when the request was refused. */
  error: ErrorCode | undefined;
  /** Present when the request created a JobCall. */
  callId: number | undefined;
  /** Why the answer could not be sent. */
  failure: Error | undefined;
  /** True once the route has nothing more to do. */
  isAnswered = false;
  /** True once the answer is sent, or its client has gone. */
  isSent = false;
  #onEnd: (() => void) | undefined;
  #ended: Promise<void> | undefined;

  constructor(options: {
    readonly id: string;
    readonly incoming: Incoming;
    readonly outgoing: ServerResponse;
    readonly uploads: Uploads;
    readonly owner: TableOwner;
  }) {
    const { id, incoming, outgoing, uploads, owner } = options;
    super(id, incoming, outgoing, uploads);
    this.incoming = incoming;
    this.outgoing = outgoing;
    this.owner = owner;
  }

  /** Headers of every answer to this request, whatever its route says. */
  get commonHeaders(): HeaderPairs {
    return [["x-request-id", this.id], ...(this.owner.cors?.headersFor(this.headers.origin) ?? [])];
  }

  /** Resolves at {@link end}. Made only when somebody waits for it. */
  get ended(): Promise<void> {
    this.#ended ??= new Promise((resolve) => {
      this.#onEnd = resolve;
    });
    return this.#ended;
  }

  end(): void {
    this.#onEnd?.();
  }
}
