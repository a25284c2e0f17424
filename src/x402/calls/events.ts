import { createHash } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse, StreamingResponse } from "../../http/response.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import { describeCall } from "./description.ts";
import { createStreamSlots } from "./stream-slots.ts";
import { type CallWatch, isFinished } from "./watch.ts";

export interface CallEventsOptions {
  readonly watch: CallWatch;
  readonly clock: Clock;
  /** A comment after so long a silence, so that nobody between takes the connection for dead. Default 15 s. */
  readonly heartbeatMs?: number;
}

/**
 * Answers with the call's states as server-sent events, from the one now to its end.
 * With `Last-Event-ID` it goes on after that event; 204, which tells an EventSource to stay away, if that was the last.
 * @throws GatewayError `too_many_streams` when no more can be open
 */
export type StreamCallEvents = (request: HttpRequest, call: CallState) => HttpResponse | StreamingResponse;

/** Streams open at once in this process. Each is a connection and a look at the store every second. */
export const MAX_STREAMS = 1_000;
/** Of those, for one call: a client that never closes any takes no other client's place. */
export const MAX_STREAMS_PER_CALL = 20;
const HEARTBEAT_MS = 15_000;

export function createCallEvents(options: CallEventsOptions): StreamCallEvents {
  const { watch, clock, heartbeatMs = HEARTBEAT_MS } = options;
  const slots = createStreamSlots({ max: MAX_STREAMS, maxPerCall: MAX_STREAMS_PER_CALL });

  async function* stream(
    callId: number,
    closed: AbortSignal,
    lastEventId: string | undefined,
  ): AsyncGenerator<string> {
    let seen = lastEventId;
    let quietSince = clock();
    for await (const call of watch.states(callId, closed)) {
      const id = eventId(call);
      if (id !== seen) yield eventText(id, call);
      // The watch looks far more often than this, whether or not there is news.
      else if (clock() - quietSince >= heartbeatMs) yield ":\n\n";
      else continue;
      seen = id;
      quietSince = clock();
    }
  }

  return (request, call) => {
    const [lastEventId] = request.headerValues("last-event-id");
    if (isFinished(call) && lastEventId === eventId(call)) {
      return { status: 204, headers: { "cache-control": "no-store" }, body: "" };
    }
    if (!slots.take(call.callId, request.closed)) {
      throw new GatewayError(
        "too_many_streams",
        "Too many event streams are open: ask for the state instead.",
        {
          headers: { "retry-after": "5" },
        },
      );
    }
    return {
      status: 200,
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        // nginx and those like it would hold events back until there are many.
        "x-accel-buffering": "no",
      },
      stream: stream(call.callId, request.closed, lastEventId),
    };
  };
}

/** Made of nothing but what is stored: the same in every process, before and after a restart. */
function eventId({ state, attempt, progress }: CallState): string {
  const id = `${state}-${attempt}`;
  if (progress === undefined) return id;
  const digest = createHash("sha256").update(progress.text).digest("hex").slice(0, 8);
  return `${id}-${progress.percent}-${digest}`;
}

function eventText(id: string, call: CallState): string {
  return `id: ${id}\nevent: ${call.state}\ndata: ${JSON.stringify(describeCall(call))}\n\n`;
}
