/** @import { Runner } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { byId, h, setText } from "./dom.js";
import { ago, countText } from "./format.js";
import { createTable } from "./table.js";

/** Connected runners and their unfinished JobCalls. @param {{ client: Client }} options */
export function createRunnersPanel({ client }) {
  const place = byId("runners", HTMLElement);
  const count = byId("runners-count", HTMLElement);
  place.replaceChildren();
  const update = createTable(place, {
    caption: "Runners connected",
    empty: "No runner is connected: work waits in the queue.",
    keyOf: (/** @type {Runner & { key: string }} */ { key }) => key,
    columns: [
      { label: "Runner", class: "wide", cell: ({ subscriber }) => subscriber },
      {
        label: "Jobs",
        cell: ({ job_ids }) => (job_ids.length === 0 ? "all" : job_ids.join(", ")),
      },
      {
        label: "In flight",
        class: "load",
        cell: ({ in_flight, max_in_flight }) => [
          h("span", { class: "nowrap" }, `${countText(in_flight)} of ${countText(max_in_flight)} `),
          h("meter", { min: 0, max: max_in_flight, value: in_flight, "aria-label": "In flight" }),
        ],
      },
      { label: "Connected", class: "nowrap", cell: ({ connected_since }) => ago(connected_since) },
    ],
  });
  return {
    async refresh() {
      const { runners } = await client.call("ListRunners", {});
      setText(count, runners.length === 0 ? "" : String(runners.length));
      // Two streams may have the same name and start time.
      update(
        runners.map((runner, i) => ({
          ...runner,
          key: `${runner.subscriber} ${runner.connected_since} ${i}`,
        })),
      );
    },
  };
}
