/** @import { Totals } from "./api.js" */
import { lineChart } from "./chart.js";
import { byId, setText } from "./dom.js";
import { countText, spanText } from "./format.js";

const LONGEST_MS = 10 * 60_000;
/** Shortest time axis, for a page that was just opened. */
const SHORTEST_MS = 60_000;
/** Smallest y-axis maximum. */
const LOWEST_MAX = 4;

/** Queue depth over the last minutes since the page was opened. */
export function createQueuePanel() {
  const place = byId("queue-chart", HTMLElement);
  const top = byId("queue-max", HTMLElement);
  /** @type {{ at: number, ready: number, leased: number }[]} */
  let samples = [];

  return {
    /** @param {Totals} totals */
    update({ calls }) {
      const now = Date.now();
      samples.push({ at: now, ready: Number(calls?.ready ?? 0), leased: Number(calls?.leased ?? 0) });
      samples = samples.filter(({ at }) => at >= now - LONGEST_MS);
      const spanMs = Math.max(SHORTEST_MS, now - (samples[0]?.at ?? now));
      const most = Math.max(...samples.flatMap(({ ready, leased }) => [ready, leased]));
      const max = Math.max(LOWEST_MAX, most);
      const pick = (/** @type {"ready" | "leased"} */ name) =>
        samples.map((sample) => ({ at: sample.at, value: sample[name] }));
      const last = samples.at(-1);
      setText(top, countText(max));
      setText(byId("queue-from", HTMLElement), `${spanText(spanMs)} ago`);
      place.replaceChildren(
        lineChart({
          label: `Over the last ${spanText(spanMs)} at most ${most}; now ${last?.ready} wait and ${last?.leased} are at runners.`,
          series: [
            { class: "ready", points: pick("ready") },
            { class: "leased", points: pick("leased") },
          ],
          from: now - spanMs,
          to: now,
          max,
          height: 140,
        }),
      );
    },
  };
}
