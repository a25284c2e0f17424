/** @typedef {Node | string | undefined | false} Child What an element can hold; undefined and false are left out. */

/**
 * An element with attributes and children. An attribute that is a function listens to that event; `true` is an
 * attribute without a value, and undefined or false none at all.
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
 * The element of index.html with this id.
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
 * Sets text only when it changes, so that nothing is selected away or told again.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
