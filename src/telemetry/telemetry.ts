import type { CounterLabels, CounterName, HistogramLabels, HistogramName } from "./instruments.ts";
import type { SpanAttributes, Tracing } from "./tracing.ts";

/** What the parts of jobgate tell of themselves, for the operator's monitoring. Quick, and never throws. */
export interface Telemetry {
  /** @param by default 1 */
  count<Name extends CounterName>(name: Name, labels: CounterLabels<Name>, by?: number): void;
  /** @param value in the unit of the name */
  observe<Name extends HistogramName>(name: Name, labels: HistogramLabels<Name>, value: number): void;
  /** Absent while traces are off. */
  readonly tracing?: Tracing;
}

/** Tells nobody: for parts that are used without an operator's listener. */
export const NO_TELEMETRY: Telemetry = { count: () => undefined, observe: () => undefined };

/** Work that is timed, and that is a span of its own inside of a traced request. */
export interface MeasuredWork<Name extends HistogramName, T> {
  readonly histogram: Name;
  /** Of the histogram, once the work has ended; `error` when it threw. */
  readonly labels: (result: { readonly value: T } | { readonly error: unknown }) => HistogramLabels<Name>;
  readonly span: string;
  /** Known before the work begins. */
  readonly attributes?: SpanAttributes;
}

/** Does the work, and gives what it gives or throws what it throws. */
export async function measure<Name extends HistogramName, T>(
  telemetry: Telemetry,
  { histogram, labels, span: name, attributes = {} }: MeasuredWork<Name, T>,
  work: () => Promise<T>,
): Promise<T> {
  const { tracing } = telemetry;
  const startedAt = performance.now();
  const ended = (result: { readonly value: T } | { readonly error: unknown }) => {
    const values = labels(result);
    telemetry.observe(histogram, values, (performance.now() - startedAt) / 1000);
    return values;
  };
  const timed = async () => {
    try {
      const value = await work();
      return { value, values: ended({ value }) };
    } catch (error) {
      ended({ error });
      throw error;
    }
  };
  if (tracing === undefined) return (await timed()).value;
  return tracing.runChild({ name, kind: "client", attributes }, async (span) => {
    const { value, values } = await timed();
    span?.set(prefixed(values));
    return value;
  });
}

function prefixed(values: Readonly<Record<string, string>>): SpanAttributes {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`jobgate.${name}`, value]));
}
