/** Values that tell spans of one name apart. Never bodies, payments, signatures, tokens or URLs. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanOptions {
  readonly name: string;
  readonly kind: "server" | "client" | "internal" | "producer";
  readonly attributes?: SpanAttributes;
  /**
   * Holds the W3C trace context that the span continues, under `traceparent` and `tracestate`; a context that is not
   * valid is none. Without this, the span is a child of the one in which it is started.
   */
  readonly carrier?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Links to the context that it continues, too: the span is for something that was begun elsewhere. */
  readonly linked?: boolean;
}

/** One piece of work that is under way. */
export interface Span {
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** It went wrong, in a word or a code. */
  fail(reason: string): void;
}

/** Where a piece of work that spans processes comes from and goes to. */
export interface Tracing {
  /** Runs `work` in a span of its own, which ends with it. What `work` throws is thrown, and is the span's error. */
  run<T>(options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T>;
  /** The same, when this happens inside of a span; what nobody traces is not traced in pieces either. */
  runChild<T>(options: SpanOptions, work: (span: Span | undefined) => Promise<T>): Promise<T>;
  /** Begins a span that ends when told to. */
  begin(options: SpanOptions): Span & { end(): void };
  /** The W3C `traceparent` of the span in which this is called. */
  traceparent(): string | undefined;
  /** Sends what has not been sent, as far as that is possible in a few seconds. Never rejects. */
  stop(): Promise<void>;
}
