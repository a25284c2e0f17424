import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

/** One line, or row of bars. */
interface Series {
  readonly name: string;
  /** Color of base.css: `accent` is `var(--accent)`. */
  readonly color: string;
  readonly values: readonly number[];
}

interface ChartProps {
  /** Description for screen readers. */
  readonly label: string;
  /** Unix milliseconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly height: number;
  readonly isBars?: boolean;
  /** Heading. */
  readonly children?: ComponentChildren;
}

const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const NUMBER = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;
/** Steps of labels that show minutes, and of labels that show days, so that no two labels of an axis are alike. */
const MINUTE_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_SECONDS),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_SECONDS),
];
const DAY_STEPS = [1, 2, 3, 7, 14, 30, 90, 365].map((days) => days * DAY_SECONDS);
/** Shortest x-axis, for a process or a page that was just opened. */
const SHORTEST_SECONDS = 60;
/** Smallest end of the y-axis of lines. */
const LOWEST_MAX = 4;

/** Chart over time. The values at the pointer are shown above it. */
export function Chart({ label, times, series, height, isBars = false, children }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const data: uPlot.AlignedData = [times.map((at) => at / 1_000), ...series.map(({ values }) => [...values])];

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const drawn = new uPlot({ ...plotOptions(element, series, isBars), height }, data, element);
    plot.current = drawn;
    const resized = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    // Colors come from the theme.
    const redraw = () => drawn.redraw(false);
    const themed = new MutationObserver(redraw);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", redraw);
    return () => {
      resized.disconnect();
      themed.disconnect();
      system.removeEventListener("change", redraw);
      drawn.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [JSON.stringify(data)]);

  return (
    <figure class="chart">
      {children}
      <div ref={place} role="img" aria-label={label} />
    </figure>
  );
}

/**
 * Returns the times that the axis shows: all times of the data, and at least the shortest axis. The first and the last
 * bar are shown whole.
 */
function shownTimes({ data: [times] }: uPlot, isBars: boolean): [number, number] {
  const to = times.at(-1) ?? Date.now() / 1_000;
  const [from = to, second = from] = times;
  const margin = isBars ? (second - from) / 2 : 0;
  return [Math.min(from, to - SHORTEST_SECONDS) - margin, to + margin];
}

function plotOptions(element: HTMLElement, series: readonly Series[], isBars: boolean) {
  // A canvas knows no variables of CSS.
  const color = (name: string) => () => {
    element.style.color = `var(--${name})`;
    return getComputedStyle(element).color;
  };
  const bars = uPlot.paths.bars?.({ size: [0.8, 40], radius: 0.15 });
  const showsDays = (from: number, to: number) => to - from > 2 * DAY_SECONDS;
  const axis = { stroke: color("muted"), ticks: { show: false }, gap: 4 };
  return {
    width: element.clientWidth,
    // Half of the last label is right of the plot.
    padding: [null, 30, null, null] as uPlot.Padding,
    cursor: { y: false, points: { show: !isBars } },
    scales: {
      x: { range: (plot: uPlot) => shownTimes(plot, isBars) },
      y: {
        range: (_: uPlot, __: number, max: number): [number, number] => [
          0,
          isBars ? max : Math.max(LOWEST_MAX, max),
        ],
      },
    },
    axes: [
      {
        ...axis,
        gap: 8,
        size: 28,
        space: 66,
        grid: { show: false },
        incrs: (_: uPlot, __: number, from: number, to: number) =>
          showsDays(from, to) ? DAY_STEPS : [...MINUTE_STEPS, ...DAY_STEPS],
        values: ({ scales }: uPlot, splits: number[]) => {
          const isOfDays = showsDays(scales.x?.min ?? 0, scales.x?.max ?? 0);
          return splits.map((at) => (isOfDays ? DATE : TIME).format(at * 1_000));
        },
      },
      {
        ...axis,
        size: 44,
        grid: { stroke: color("line"), dash: [2, 4] },
        values: (_: uPlot, splits: number[]) => splits.map((value) => NUMBER.format(value)),
      },
    ],
    series: [
      { value: (_: uPlot, at: number | null) => (at === null ? "" : TIME.format(at * 1_000)) },
      ...series.map((one, index) => ({
        label: one.name,
        stroke: color(one.color),
        width: isBars ? 0 : 2,
        points: { show: (plot: uPlot) => plot.data[0].length === 1 },
        ...(isBars && bars ? { paths: bars, fill: color(one.color) } : {}),
        ...(!isBars && index === 0 ? { fill: color(`${one.color}-soft`) } : {}),
        ...(one.color === "muted" ? { dash: [6, 4] } : {}),
        value: (_: uPlot, value: number | null) => (value === null ? "" : NUMBER.format(value)),
      })),
    ],
  };
}
