import { createHash } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse, StreamingResponse } from "../../http/response.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { AnswerExtensions } from "../wire/extensions.ts";
import { describeCall } from "./call-answer.ts";
import { tooManyWaits, type WaitPlaces } from "./wait-places.ts";
import { type CallWatch, isFinished } from "./watch.ts";

const HEARTBEAT_MS = 15_000;

/** Streams the states of paid calls as server-sent events. */
export class CallEvents {
  readonly #watch: CallWatch;
  readonly #clock: Clock;
  readonly #heartbeatMs: number;
  readonly #places: WaitPlaces;

  /** @param parts `heartbeatMs`: silence after which a comment keeps proxies from closing the connection; default 15 s */
  constructor(parts: {
    readonly watch: CallWatch;
    readonly places: WaitPlaces;
    readonly clock: Clock;
    readonly heartbeatMs?: number;
  }) {
    this.#watch = parts.watch;
    this.#places = parts.places;
    this.#clock = parts.clock;
    this.#heartbeatMs = parts.heartbeatMs ?? HEARTBEAT_MS;
  }

  /**
   * Streams a call's states from the current one to the end of the call. With `Last-Event-ID` the stream continues after
   * that event. If that was the last event, the answer is 204, which stops an EventSource from reconnecting.
   * @param extensions extensions of the settlement in the event of success
   * @throws GatewayError `too_many_waits`
   */
  stream(
    request: HttpRequest,
    call: CallState,
    extensions?: AnswerExtensions,
  ): HttpResponse | StreamingResponse {
    const [lastEventId] = request.headerValues("last-event-id");
    if (isFinished(call) && lastEventId === eventId(call)) {
      return { status: 204, headers: { "cache-control": "no-store" }, body: "" };
    }
    const { callId, payment } = call;
    const { closed } = request;
    if (!isFinished(call) && !closed.aborted) {
      const leave = this.#places.take({ callId, payer: payment.payer });
      if (leave === undefined) throw tooManyWaits();
      closed.addEventListener("abort", leave, { once: true });
    }
    return {
      status: 200,
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        // Stops nginx and similar proxies from buffering events.
        "x-accel-buffering": "no",
      },
      stream: this.#events(callId, closed, { lastEventId, extensions }),
    };
  }

  async *#events(
    callId: number,
    closed: AbortSignal,
    {
      lastEventId,
      extensions,
    }: { readonly lastEventId: string | undefined; readonly extensions: AnswerExtensions | undefined },
  ): AsyncGenerator<string> {
    let seen = lastEventId;
    let quietSince = this.#clock();
    // The watch yields at every poll, changed or not, and polls are far more frequent than heartbeats.
    for await (const call of this.#watch.states(callId, closed)) {
      const id = eventId(call);
      if (id !== seen) yield eventText(id, call, (await extensions?.settlementOf(call))?.extensions);
      else if (this.#clock() - quietSince >= this.#heartbeatMs) yield ":\n\n";
      else continue;
      seen = id;
      quietSince = this.#clock();
    }
  }
}

/** Returns an id made only of stored values, so that it is the same in every process and after a restart. */
function eventId({ state, attempt, progress, charge, additions = [] }: CallState): string {
  const states = [charge, ...additions].flatMap((one) => one?.state ?? []);
  const id = [state, attempt, ...states].join("-");
  if (progress === undefined) return id;
  const digest = createHash("sha256").update(progress.text).digest("hex").slice(0, 8);
  return `${id}-${progress.percent}-${digest}`;
}

function eventText(id: string, call: CallState, extensions: object | undefined): string {
  const data = JSON.stringify({ ...describeCall(call), extensions });
  return `id: ${id}\nevent: ${call.state}\ndata: ${data}\n\n`;
}
