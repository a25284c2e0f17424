/** @import { Child } from "./dom.js" */
import { h, present, setText } from "./dom.js";
import { keyedChildren } from "./keyed.js";

/**
 * @template Item
 * @typedef {object} Column
 * @property {string} label Also beside each value where the table is too wide for the screen, and rows become cards.
 * @property {(item: Item) => Child | readonly Child[]} cell
 * @property {string} [class]
 */

/**
 * A table in a panel, or a sentence when there is nothing in it. Filled by the function that it gives.
 * @template Item
 * @param {Element} container
 * @param {object} options
 * @param {string} options.caption For who cannot see the heading above it.
 * @param {string} options.empty
 * @param {readonly Column<Item>[]} options.columns
 * @param {(item: Item) => string} options.keyOf
 * @returns {(items: readonly Item[], sentence?: string) => void} `sentence`: instead of `empty`
 */
export function createTable(container, { caption, empty, columns, keyOf }) {
  // Roles are said again: browsers drop a table's where its parts are laid out as blocks.
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
  // That there is nothing is not known before the first answer.
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
