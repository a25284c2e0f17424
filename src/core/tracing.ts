/** Values of a span. Never bodies, payments, signatures, tokens or URLs, because collectors keep what they receive. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** A span to begin. */
export interface SpanStart {
  readonly name: string;
  readonly kind: "server" | "client" | "internal" | "producer";
  readonly attributes?: SpanAttributes;
  /**
   * Holds the W3C trace context that the span continues, under `traceparent` and `tracestate`. An invalid context is
   * ignored. Without a carrier the span is a child of the current span.
   */
  readonly carrier?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Also links the span to the carrier's context, for work that another request began. */
  readonly linked?: boolean;
}

/** A span that has not ended. */
export interface Span {
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** Marks the span as failed. @param reason a word or an error code */
  fail(reason: string): void;
}

/** Makes spans, and carries their context between processes. */
export interface Tracing {
  /** Runs `work` in a span that ends with it. An error of `work` marks the span as failed and is thrown again. */
  run<T>(start: SpanStart, work: (span: Span) => Promise<T>): Promise<T>;
  /** Same as {@link run} inside a span; outside of one it runs `work` without a span. */
  runChild<T>(start: SpanStart, work: (span: Span | undefined) => Promise<T>): Promise<T>;
  /** Begins a span that the caller ends. */
  begin(start: SpanStart): Span & { end(): void };
  /** W3C `traceparent` of the current span; undefined outside of one. */
  traceparent(): string | undefined;
  /** Sends the remaining spans, as far as a few seconds allow. Never rejects. */
  stop(): Promise<void>;
}
