import type {
  CounterLabels,
  CounterName,
  CounterReader,
  HistogramLabels,
  HistogramName,
  HistogramReader,
} from "./instruments.ts";

/** Counters, histograms and spans that jobgate's parts report to. Calls are quick and never throw. */
export interface Telemetry {
  /**
   * Returns the counter with these labels. It is for code that counts often, because looking up a counter costs more
   * than counting.
   */
  counter<Name extends CounterName>(name: Name, labels: CounterLabels<Name>): Counter;
  /** Returns the histogram with these labels. It is for code that observes often. */
  histogram<Name extends HistogramName>(name: Name, labels: HistogramLabels<Name>): Histogram;
  /** @param by 1 if left out */
  count<Name extends CounterName>(name: Name, labels: CounterLabels<Name>, by?: number): void;
  /** @param value in the unit that the histogram's name ends with */
  observe<Name extends HistogramName>(name: Name, labels: HistogramLabels<Name>, value: number): void;
  readonly counters: CounterReader;
  readonly histograms: HistogramReader;
  /** Undefined while traces are off. */
  readonly tracing?: Tracing | undefined;
}

/** A counter with fixed labels. */
export interface Counter {
  add(by: number): void;
}

/** A histogram with fixed labels. */
export interface Histogram {
  /** @param value in the unit that the histogram's name ends with */
  observe(value: number): void;
}

/** Discards every report. Used if no telemetry is offered. */
export const NO_TELEMETRY: Telemetry = {
  counter: () => ({ add: () => undefined }),
  histogram: () => ({ observe: () => undefined }),
  count: () => undefined,
  observe: () => undefined,
  counters: () => [],
  histograms: () => [],
};

type Result<T> = { readonly value: T } | { readonly error: unknown };

/** Runs `work`, records its duration in a histogram, and makes it a span if the current request is traced. */
export async function measure<Name extends HistogramName, T>(
  telemetry: Telemetry,
  measured: {
    readonly histogram: Name;
    /** Returns the labels of the outcome; `error` is what `work` threw. */
    readonly labels: (result: Result<T>) => HistogramLabels<Name>;
    /** Name of the span. */
    readonly span: string;
    /** Attributes of the span that are known before the work begins. */
    readonly attributes?: SpanAttributes;
  },
  work: () => Promise<T>,
): Promise<T> {
  const { histogram, labels, span: name, attributes = {} } = measured;
  const startedAt = performance.now();
  const record = (result: Result<T>) => {
    const values = labels(result);
    telemetry.observe(histogram, values, (performance.now() - startedAt) / 1000);
    return values;
  };
  const timed = async () => {
    try {
      const value = await work();
      return { value, values: record({ value }) };
    } catch (error) {
      record({ error });
      throw error;
    }
  };
  const { tracing } = telemetry;
  if (tracing === undefined) return (await timed()).value;
  return tracing.runChild({ name, kind: "client", attributes }, async (span) => {
    const { value, values } = await timed();
    span?.set(asAttributes(values));
    return value;
  });
}

function asAttributes(labels: Readonly<Record<string, string>>): SpanAttributes {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [`jobgate.${name}`, value]));
}

/** Values of a span. Never bodies, payments, signatures, tokens or URLs, because collectors keep what they receive. */
type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

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
  /** If true, the span is also linked to the carrier's context, for work that another request began. */
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
  /** Does the same as {@link run} inside a span. Outside of a span, runs `work` without a span. */
  runChild<T>(start: SpanStart, work: (span: Span | undefined) => Promise<T>): Promise<T>;
  /** Begins a span that the caller ends. */
  begin(start: SpanStart): Span & { end(): void };
  /** W3C `traceparent` of the current span; undefined outside of a span. */
  traceparent(): string | undefined;
  /** Sends as many of the remaining spans as it can send in a few seconds. Never rejects. */
  stop(): Promise<void>;
}
