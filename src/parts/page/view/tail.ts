import type { TailResponse } from "../../../gen/jobgate/v1/operator_pb.ts";
import { client } from "../../../page/tools/client.ts";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** Hidden tabs close their stream after this time: browsers open only six connections to one server. */
const KEPT_WHEN_HIDDEN_MS = 20_000;
/** jobgate sends a message every 20 s, so the connection is lost after this silence. */
const LONGEST_SILENCE_MS = 60_000;
/** Number of past events to begin with. */
const HISTORY = 200;

/** Reads the event stream while the tab is visible, and reopens it with backoff when it breaks, until `signal` aborts. */
export async function followTail(options: {
  readonly signal: AbortSignal;
  /** `isPast` is true for events from before the stream was opened. */
  readonly onMessage: (message: TailResponse, isPast: boolean) => void;
  readonly onOpen: (isOpen: boolean) => void;
  readonly onError: (error: unknown) => void;
}): Promise<void> {
  const { signal, onMessage, onOpen, onError } = options;
  let waitMs = FIRST_WAIT_MS;
  while (!signal.aborted) {
    const stream = new StreamWatch(signal);
    try {
      let isPast = true;
      const call = { signal: stream.signal, timeoutMs: 0 };
      for await (const message of client.tail({ history: HISTORY }, call)) {
        stream.heard();
        waitMs = FIRST_WAIT_MS;
        onOpen(true);
        isPast &&= message.event !== undefined;
        onMessage(message, isPast);
      }
    } catch (error) {
      if (!stream.signal.aborted) onError(error);
    }
    stream.stop();
    if (signal.aborted) return;
    onOpen(false);
    // Jitter keeps many pages from reconnecting at the same moment.
    const nextMs = waitMs * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, nextMs));
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
    await visible();
  }
}

/** Ends a stream once the tab has been hidden for a while, or the stream has been silent for too long. */
class StreamWatch {
  readonly signal: AbortSignal;
  readonly #lost = new AbortController();
  #hidden: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;

  constructor(closed: AbortSignal) {
    this.signal = AbortSignal.any([closed, this.#lost.signal]);
    document.addEventListener("visibilitychange", this.#look);
    this.#look();
    this.heard();
  }

  heard(): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lost.abort(), LONGEST_SILENCE_MS);
  }

  stop(): void {
    clearTimeout(this.#hidden);
    clearTimeout(this.#silence);
    document.removeEventListener("visibilitychange", this.#look);
  }

  readonly #look = (): void => {
    clearTimeout(this.#hidden);
    if (document.hidden) this.#hidden = setTimeout(() => this.#lost.abort(), KEPT_WHEN_HIDDEN_MS);
  };
}

/** Resolves once the tab is visible. */
function visible(): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}
