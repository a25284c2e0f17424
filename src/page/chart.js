import { svg } from "./dom.js";

/** Width in the chart's own units; CSS stretches it. */
const WIDTH = 600;

/**
 * @typedef {object} Series
 * @property {string} class CSS class that sets the color.
 * @property {readonly { at: number, value: number }[]} points Ordered by time.
 */

/**
 * Line chart over time; the first series also gets an area.
 * @param {object} options
 * @param {string} options.label Description for screen readers.
 * @param {readonly Series[]} options.series
 * @param {number} options.from Unix milliseconds.
 * @param {number} options.to
 * @param {number} options.max
 * @param {number} options.height
 */
export function lineChart({ label, series, from, to, max, height }) {
  const x = (/** @type {number} */ at) => ((at - from) / Math.max(1, to - from)) * WIDTH;
  const y = (/** @type {number} */ value) => height - (value / Math.max(1, max)) * (height - 2) - 1;
  const path = (/** @type {Series} */ { points }) =>
    points
      .map(({ at, value }, i) => `${i === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`)
      .join("");
  const [first] = series;
  const ends = first?.points.length ? [first.points[0], first.points.at(-1)] : [];
  const area =
    first && ends[0] && ends[1]
      ? [`${path(first)}L${x(ends[1].at).toFixed(1)} ${height}L${x(ends[0].at).toFixed(1)} ${height}Z`]
      : [];
  return picture(
    label,
    height,
    ...[0.25, 0.5, 0.75].map((share) =>
      svg("line", { class: "grid-line", x1: 0, x2: WIDTH, y1: height * share, y2: height * share }),
    ),
    ...area.map((d) => svg("path", { class: `area ${first?.class ?? ""}`, d })),
    ...series.map((one) => svg("path", { class: `line ${one.class}`, d: path(one) })),
  );
}

/**
 * Bar chart. Values above 0 always get a visible bar.
 * @param {object} options
 * @param {string} options.label
 * @param {readonly { value: number, title: string }[]} options.bars
 * @param {number} options.height
 */
export function barChart({ label, bars, height }) {
  const max = Math.max(...bars.map(({ value }) => value), 0);
  const step = WIDTH / Math.max(1, bars.length);
  const gap = Math.min(3, step / 4);
  return picture(
    label,
    height,
    ...bars.map(({ value, title }, i) => {
      const tall = value === 0 ? 1 : Math.max(3, (value / max) * height);
      const place = { x: i * step + gap / 2, width: step - gap, y: height - tall, height: tall };
      return svg(
        "g",
        { class: "bar-group" },
        svg("rect", { class: "bar-room", x: i * step, width: step, y: 0, height }),
        svg("rect", { class: value === 0 ? "bar none" : "bar", rx: 1.5, ...place }),
        svg("title", {}, title),
      );
    }),
  );
}

/**
 * @param {string} label
 * @param {number} height
 * @param {...SVGElement} parts
 */
function picture(label, height, ...parts) {
  return svg(
    "svg",
    {
      class: "chart",
      role: "img",
      "aria-label": label,
      viewBox: `0 0 ${WIDTH} ${height}`,
      preserveAspectRatio: "none",
    },
    ...parts,
  );
}
