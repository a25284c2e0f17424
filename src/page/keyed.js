/**
 * Keeps the children of an element in step with a list: those that did not change stay as they are, with their focus
 * and what is selected in them.
 * @template Item
 * @param {Element} container
 * @param {{ keyOf: (item: Item) => string, render: (item: Item) => Element }} options `render` is asked again once the
 *   item's JSON has changed
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
      // The first of a key is the one: a second element of it would never be taken away again.
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
 * Puts an element where an older one of the same thing was; what had the focus there has it here.
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
