/** A family of samples in the text format of Prometheus, version 0.0.4. */
export interface MetricFamily {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: readonly Sample[];
}

export interface Sample {
  /** With the suffix of a histogram's parts. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const NAME = /^[a-z_][a-z0-9_]*$/;
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/;
const HISTOGRAM_SUFFIX = /_(bucket|sum|count)$/;
/** `promtool check metrics`: base units, in full. */
const NO_BASE_UNIT = /_(ms|milliseconds|us|microseconds|ns|minutes|hours|days|kb|kilobytes|mb|percent)(_|$)/;

/** Parses the answer of `/metrics`. @throws Error at the first line that is not in the format */
export function parseExposition(text: string): MetricFamily[] {
  if (!text.endsWith("\n")) throw new Error("the last line does not end");
  const families = new Map<string, { type: string; help: string; samples: Sample[] }>();
  let current = "";
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (keyword === "HELP") {
      if (families.has(name)) throw new Error(`${name} is told of twice`);
      families.set(name, { type: "", help: rest, samples: [] });
      current = name;
    } else if (keyword === "TYPE") {
      const family = families.get(name);
      if (family === undefined || name !== current) throw new Error(`TYPE without HELP: ${line}`);
      if (family.type !== "" || family.samples.length > 0) throw new Error(`TYPE comes late: ${line}`);
      family.type = rest;
    } else {
      const sample = parseSample(line);
      const family = families.get(current);
      const isPart =
        sample.name === current || (family?.type === "histogram" && isPartOf(sample.name, current));
      if (family === undefined || !isPart) throw new Error(`a sample of no family: ${line}`);
      family.samples.push(sample);
    }
  }
  return [...families].map(([name, family]) => ({ name, ...family }));
}

function isPartOf(sampleName: string, family: string): boolean {
  return HISTOGRAM_SUFFIX.test(sampleName) && sampleName.replace(HISTOGRAM_SUFFIX, "") === family;
}

function parseSample(line: string): Sample {
  const [, name = "", labelText = "", valueText = ""] = SAMPLE.exec(line) ?? [];
  const value = valueText === "+Inf" ? Number.POSITIVE_INFINITY : Number(valueText);
  if (name === "" || Number.isNaN(value)) throw new Error(`not a sample: ${line}`);
  const labels: Record<string, string> = {};
  for (let rest = labelText; rest !== ""; ) {
    const [whole, label = "", escaped = ""] = LABEL.exec(rest) ?? [];
    if (whole === undefined || label in labels) throw new Error(`labels are malformed: ${line}`);
    labels[label] = escaped.replace(/\\(["\\n])/g, (_, char: string) => (char === "n" ? "\n" : char));
    rest = rest.slice(whole.length);
  }
  return { name, labels, value };
}

/** Returns the violations of Prometheus' naming and format rules in these families. */
export function findExpositionMistakes(families: readonly MetricFamily[]): string[] {
  return families.flatMap((family) => {
    const { name, type, help, samples } = family;
    const mistakes: string[] = [];
    const mistake = (is: boolean, what: string) => is && mistakes.push(`${name}: ${what}`);
    mistake(!["counter", "gauge", "histogram", "summary"].includes(type), `type ${type}`);
    mistake(help.trim() === "", "no help");
    mistake(!NAME.test(name), "name");
    mistake(NO_BASE_UNIT.test(name), "no base unit");
    mistake((type === "counter") !== name.endsWith("_total"), "counters, and only they, end in _total");
    mistake(HISTOGRAM_SUFFIX.test(name), "a name that only parts of histograms have");
    mistake(type !== "histogram" && samples.some(({ labels }) => "le" in labels), "le without a histogram");
    mistake(
      samples.some(({ labels }) => "quantile" in labels),
      "quantile without a summary",
    );
    mistake(type !== "gauge" && samples.some(({ value }) => value < 0), "less than nothing");
    const series = samples.map(
      (sample) => `${sample.name} ${JSON.stringify(Object.entries(sample.labels).sort())}`,
    );
    mistake(new Set(series).size < series.length, "a series twice");
    if (type === "histogram") mistakes.push(...findHistogramMistakes(family));
    return mistakes;
  });
}

function findHistogramMistakes({ name, samples }: MetricFamily): string[] {
  const mistakes: string[] = [];
  const groups = new Map<string, Sample[]>();
  for (const sample of samples) {
    const group = groupOf(sample);
    groups.set(group, [...(groups.get(group) ?? []), sample]);
  }
  for (const [group, parts] of groups) {
    const buckets = parts.filter((part) => part.name.endsWith("_bucket"));
    const count = parts.find((part) => part.name.endsWith("_count"))?.value;
    const isSorted = buckets.every(
      ({ value, labels }, i) =>
        i === 0 ||
        (value >= (buckets[i - 1]?.value ?? 0) && boundOf(labels.le) > boundOf(buckets[i - 1]?.labels.le)),
    );
    const last = buckets.at(-1);
    if (!isSorted || last?.labels.le !== "+Inf" || last.value !== count) {
      mistakes.push(`${name}: buckets of ${group} do not add up`);
    }
    if (!parts.some((part) => part.name.endsWith("_sum"))) mistakes.push(`${name}: no sum of ${group}`);
  }
  return mistakes;
}

function groupOf({ labels: { le: _, ...labels } }: Sample): string {
  return JSON.stringify(labels);
}

function boundOf(le: string | undefined): number {
  return le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le);
}
