import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { EventHub, GatewayEvent } from "../../core/events.ts";
import { type TailResponse, TailResponseSchema } from "../../gen/jobgate/v1/operator_pb.ts";
import type { DecimalsOf } from "../../operator/messages.ts";
import { toEvent } from "./messages.ts";

/** Most events buffered for one slow reader. An event is a few hundred bytes. */
const MAX_BUFFERED = 1_000;
/** Most readers at once. */
const MAX_READERS = 32;
/** Longest silence on a stream, because an idle connection may be lost without either end noticing. */
const MAX_SILENCE_MS = 20_000;

/** Streams events to operators. Each reader has a bounded buffer; when it is full, new events are dropped and counted. */
export class Tail {
  readonly #events: EventHub;
  readonly #decimalsOf: DecimalsOf;
  readonly #maxSilenceMs: number;
  #readers = 0;

  constructor(parts: {
    readonly events: EventHub;
    readonly decimalsOf: DecimalsOf;
    readonly maxSilenceMs?: number;
  }) {
    this.#events = parts.events;
    this.#decimalsOf = parts.decimalsOf;
    this.#maxSilenceMs = parts.maxSilenceMs ?? MAX_SILENCE_MS;
  }

  /**
   * Yields earlier events and an empty message at once, then each event, and an empty message after every silence.
   * @param signal ends the stream with its reason
   * @param earlier reads the earlier events at the moment at which the stream starts to receive later events
   */
  async *read(
    signal: AbortSignal,
    earlier: () => readonly GatewayEvent[] = () => [],
  ): AsyncGenerator<TailResponse> {
    if (this.#readers >= MAX_READERS) {
      throw new ConnectError(
        `Too many readers: at most ${MAX_READERS} can tail at once.`,
        Code.ResourceExhausted,
      );
    }
    this.#readers++;
    const buffer = new EventBuffer(this.#decimalsOf);
    const unsubscribe = this.#events.subscribe((event) => buffer.add(event));
    const wake = () => buffer.wake();
    signal.addEventListener("abort", wake);
    try {
      for (const event of earlier())
        yield create(TailResponseSchema, { event: toEvent(event, this.#decimalsOf) });
      yield create(TailResponseSchema);
      while (!signal.aborted) {
        yield* buffer.take();
        if (!signal.aborted && !(await buffer.filled(this.#maxSilenceMs))) yield create(TailResponseSchema);
      }
      // jobgate is stopping, or the reader has gone and does not see this.
      throw signal.reason;
    } finally {
      unsubscribe();
      signal.removeEventListener("abort", wake);
      this.#readers--;
    }
  }
}

/** The events that one reader has not received yet. */
class EventBuffer {
  readonly #decimalsOf: DecimalsOf;
  /** Buffered events, each with the number of events that were dropped just before it. */
  #buffered: { readonly event: GatewayEvent; readonly missed: number }[] = [];
  #missed = 0;
  #wake = (): void => {};

  constructor(decimalsOf: DecimalsOf) {
    this.#decimalsOf = decimalsOf;
  }

  add(event: GatewayEvent): void {
    if (this.#buffered.length >= MAX_BUFFERED) {
      this.#missed++;
      return;
    }
    this.#buffered.push({ event, missed: this.#missed });
    this.#missed = 0;
    this.#wake();
  }

  *take(): Generator<TailResponse> {
    const taken = this.#buffered;
    this.#buffered = [];
    for (const { event, missed } of taken)
      yield create(TailResponseSchema, { event: toEvent(event, this.#decimalsOf), missed: BigInt(missed) });
    // The reader has caught up: report the dropped events now, since the next event may be far off.
    if (this.#buffered.length === 0 && this.#missed > 0) {
      const missed = BigInt(this.#missed);
      this.#missed = 0;
      yield create(TailResponseSchema, { missed });
    }
  }

  /** Waits for an event or for {@link wake}. @returns false if neither came in time */
  filled(timeoutMs: number): Promise<boolean> {
    if (this.#buffered.length > 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs, false);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  wake(): void {
    this.#wake();
  }
}
