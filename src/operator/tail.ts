import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import type { EventHub, GatewayEvent } from "../core/events.ts";
import { type TailRequest, type TailResponse, TailResponseSchema } from "../gen/jobgate/v1/operator_pb.ts";
import { toEvent } from "./messages.ts";

/** Events kept for one reader that does not keep up. An event is a few hundred bytes. */
const MAX_WAITING = 1_000;
/** Readers at once. */
const MAX_TAILS = 32;
/** The longest that a stream is silent: connections can be lost without either end being told. */
const MAX_SILENCE_MS = 20_000;

/**
 * Answers Tail. Each reader has a bounded buffer of its own: the newest events are dropped, and counted, when it is full.
 * While nothing happens it gets an empty message now and then.
 */
export function createTail(options: { readonly events: EventHub; readonly maxSilenceMs?: number }) {
  const { events, maxSilenceMs = MAX_SILENCE_MS } = options;
  let tails = 0;

  return async function* tail(
    _request: TailRequest,
    { signal }: HandlerContext,
  ): AsyncGenerator<TailResponse> {
    if (tails >= MAX_TAILS) {
      throw new ConnectError(`${MAX_TAILS} readers are tailing already.`, Code.ResourceExhausted);
    }
    tails++;
    const reader = createReader();
    const unsubscribe = events.subscribe(reader.add);
    signal.addEventListener("abort", reader.wake);
    try {
      yield message({});
      while (!signal.aborted) {
        for (const waiting of reader.take()) yield message(waiting);
        if (!signal.aborted && !(await reader.filled(maxSilenceMs))) yield message({});
      }
      // jobgate stops, or the reader is gone and will not see this.
      throw signal.reason;
    } finally {
      unsubscribe();
      signal.removeEventListener("abort", reader.wake);
      tails--;
    }
  };
}

function message(init: MessageInitShape<typeof TailResponseSchema>): TailResponse {
  return create(TailResponseSchema, init);
}

interface Waiting {
  readonly event: GatewayEvent;
  /** Events dropped just before this one. */
  readonly missed: number;
}

function createReader() {
  let waiting: Waiting[] = [];
  let missed = 0;
  let wake = (): void => {};

  return {
    add(event: GatewayEvent): void {
      if (waiting.length >= MAX_WAITING) {
        missed++;
        return;
      }
      waiting.push({ event, missed });
      missed = 0;
      wake();
    },
    *take() {
      const taken = waiting;
      waiting = [];
      for (const { event, missed } of taken) yield { event: toEvent(event), missed: BigInt(missed) };
      // The reader has caught up: it is told now, not only with the next event.
      if (waiting.length === 0 && missed > 0) {
        const last = missed;
        missed = 0;
        yield { missed: BigInt(last) };
      }
    },
    /** Resolves when there is something to take, or when woken; with false when neither comes in time. */
    filled(timeoutMs: number): Promise<boolean> {
      if (waiting.length > 0) return Promise.resolve(true);
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, timeoutMs, false);
        wake = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
    },
    wake: () => wake(),
  };
}
