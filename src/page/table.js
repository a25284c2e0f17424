/** @import { Child } from "./dom.js" */
import { h, keyedChildren, present, setText } from "./dom.js";

/**
 * @template Item
 * @typedef {object} Column
 * @property {string} label Column heading; shown beside each value on narrow screens, where rows become cards.
 * @property {(item: Item) => Child | readonly Child[]} cell
 * @property {string} [class]
 */

/**
 * Creates a table that shows a sentence while it has no rows. Returns the function that updates it.
 * @template Item
 * @param {Element} container
 * @param {object} options
 * @param {string} options.caption Heading for screen readers.
 * @param {string} options.empty
 * @param {readonly Column<Item>[]} options.columns
 * @param {(item: Item) => string} options.keyOf
 * @returns {(items: readonly Item[], sentence?: string) => void} `sentence` replaces `empty`
 */
export function createTable(container, { caption, empty, columns, keyOf }) {
  // Explicit roles: browsers drop implicit ones when CSS lays table parts out as blocks.
  const body = h("tbody", { role: "rowgroup" });
  const table = h(
    "table",
    { role: "table" },
    h("caption", { class: "unseen" }, caption),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        ...columns.map((column) =>
          h("th", { role: "columnheader", scope: "col", class: column.class }, column.label),
        ),
      ),
    ),
    body,
  );
  table.hidden = true;
  // Until the first answer it is unknown whether there are rows.
  const nothing = h("p", { class: "empty" }, "…");
  const update = keyedChildren(body, {
    keyOf,
    render: (/** @type {Item} */ item) =>
      h(
        "tr",
        { role: "row" },
        ...columns.map((column) =>
          h(
            "td",
            { role: "cell", "data-label": column.label, class: column.class },
            h("span", { class: "value" }, ...childrenOf(column.cell(item))),
          ),
        ),
      ),
  });
  container.append(table, nothing);
  return (items, sentence = empty) => {
    table.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
    setText(nothing, sentence);
    update(items);
  };
}

/**
 * @param {Child | readonly Child[]} cell
 * @returns {(Node | string)[]}
 */
function childrenOf(cell) {
  return present(Array.isArray(cell) ? cell : [/** @type {Child} */ (cell)]);
}
