/** One event of a stream; its data is JSON. */
export interface ServerSentEvent {
  readonly id: string;
  readonly event: string;
  readonly data: Record<string, unknown>;
}

/** An event stream that is being read by plain `fetch`. */
export interface EventStream {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Comments received so far. */
  readonly comments: number;
  /** The next event; undefined once the stream has ended in order. Rejects when it breaks off, or after 10 s. */
  next(): Promise<ServerSentEvent | undefined>;
  /** Reads to the end. */
  rest(): Promise<ServerSentEvent[]>;
  /** Hangs up. */
  close(): void;
}

const WAIT_MS = 50_000;

/** Opens a stream, and reads it as it comes. An answer that is no event stream has no events. */
export async function openEvents(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<EventStream> {
  const leaving = new AbortController();
  const response = await fetch(url, { headers, signal: leaving.signal });
  const waiting: ServerSentEvent[] = [];
  let comments = 0;
  let wake = (): void => {};
  let end: { error?: Error } | undefined;

  function take(block: string): void {
    const lines = block.split("\n");
    if (lines.every((line) => line.startsWith(":"))) {
      comments++;
      return;
    }
    const [id, event, data, ...others] = lines.map((line) => /^(id|event|data): (.*)$/s.exec(line));
    if (id?.[1] !== "id" || event?.[1] !== "event" || data?.[1] !== "data" || others.length > 0) {
      throw new Error(`not an event: ${JSON.stringify(block)}`);
    }
    waiting.push({ id: id[2] as string, event: event[2] as string, data: JSON.parse(data[2] as string) });
  }

  async function read(): Promise<void> {
    if (response.headers.get("content-type") !== "text/event-stream") {
      await response.arrayBuffer();
      return;
    }
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() as string;
      for (const block of blocks) take(block);
      wake();
    }
    if (text !== "") throw new Error(`the stream ended within an event: ${JSON.stringify(text)}`);
  }
  read().then(
    () => {
      end = {};
      wake();
    },
    (error: Error) => {
      end = { error };
      wake();
    },
  );

  async function next(): Promise<ServerSentEvent | undefined> {
    const deadline = Date.now() + WAIT_MS;
    while (waiting.length === 0 && end === undefined) {
      if (Date.now() > deadline) throw new Error(`no event came within ${WAIT_MS} ms`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, deadline - Date.now() + 1);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const event = waiting.shift();
    if (event === undefined && end?.error !== undefined) throw end.error;
    return event;
  }

  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    get comments() {
      return comments;
    },
    next,
    async rest() {
      const events: ServerSentEvent[] = [];
      for (let event = await next(); event !== undefined; event = await next()) events.push(event);
      return events;
    },
    close: () => leaving.abort(),
  };
}
