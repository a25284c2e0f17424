/** @typedef {Node | string | undefined | false} Child Content of an element; undefined and false are skipped. */

/**
 * Creates an element. A function as attribute listens to that event, `true` sets an attribute without a value, undefined
 * and false set none.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | undefined | ((event: Event) => void)>} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else setAttribute(element, name, value);
  }
  element.append(...present(children));
  return element;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number | undefined>} attributes
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...present(children));
  return element;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string | number | boolean | undefined} value
 */
function setAttribute(element, name, value) {
  if (value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/**
 * @param {readonly Child[]} children
 * @returns {(Node | string)[]}
 */
export function present(children) {
  return children.filter((child) => child !== undefined && child !== false);
}

/**
 * Finds the element of index.html with this ID.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`There is no ${type.name} #${id}`);
  return element;
}

/**
 * Sets text only when it changes, which keeps selections and avoids repeated announcements.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Synchronizes an element's children with a list. Unchanged items keep their elements, with focus and selection.
 * @template Item
 * @param {Element} container
 * @param {{ keyOf: (item: Item) => string, render: (item: Item) => Element }} options `render` runs again when the
 *   item's JSON changes
 * @returns {(items: readonly Item[]) => void}
 */
export function keyedChildren(container, { keyOf, render }) {
  /** @type {Map<string, { json: string, element: Element }>} */
  let shown = new Map();
  return (items) => {
    /** @type {typeof shown} */
    const next = new Map();
    for (const item of items) {
      const key = keyOf(item);
      // The first of equal keys wins: a second element would never be removed.
      if (next.has(key)) continue;
      const json = JSON.stringify(item);
      const known = shown.get(key);
      next.set(key, known?.json === json ? known : { json, element: replace(known?.element, render(item)) });
    }
    for (const [key, { element }] of shown) if (!next.has(key)) element.remove();
    shown = next;
    let place = container.firstElementChild;
    for (const { element } of next.values()) {
      if (element === place) place = place.nextElementSibling;
      else container.insertBefore(element, place);
    }
  };
}

/**
 * Replaces an item's element and moves the focus to the same button of the new one.
 * @param {Element | undefined} old
 * @param {Element} element
 */
function replace(old, element) {
  if (old === undefined) return element;
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const index =
    focused === null ? -1 : [...old.querySelectorAll("button")].indexOf(/** @type {any} */ (focused));
  old.replaceWith(element);
  element.querySelectorAll("button")[index]?.focus();
  return element;
}
