/** @import { Rate } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { byId, h } from "./dom.js";
import { ago } from "./format.js";
import { createTable } from "./table.js";
import { tokenKey } from "./tokens.js";

/** Rate of each accepted token and its age. @param {{ client: Client }} options */
export function createRatesPanel({ client }) {
  const place = byId("rates", HTMLElement);
  place.replaceChildren();
  const update = createTable(place, {
    caption: "Rates of the accepted tokens",
    empty: "No tokens are accepted.",
    keyOf: (/** @type {Rate} */ rate) => tokenKey(rate),
    columns: [
      {
        label: "Token",
        cell: ({ symbol, network, asset }) => [
          h("span", { title: asset }, symbol),
          " ",
          h("span", { class: "network" }, network),
        ],
      },
      { label: "Per native unit", class: "number", cell: ({ rate }) => (rate === "" ? "–" : rate) },
      { label: "Source", cell: ({ source }) => source },
      {
        label: "State",
        class: "wide",
        cell: ({ usable, problem, as_of }) => [
          h(
            "span",
            { class: "badge", "data-stage": usable ? "done" : "dead" },
            usable ? "usable" : "not usable",
          ),
          as_of !== undefined && h("span", { class: "muted" }, " ", ago(as_of, " old")),
          problem !== "" && h("span", {}, ` ${problem}`),
        ],
      },
    ],
  });
  return {
    async refresh() {
      update((await client.call("ListRates", {})).rates);
    },
  };
}
