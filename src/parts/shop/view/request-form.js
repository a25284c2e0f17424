/** @import { Answer, Job } from "./data.js" */
import { byId, h } from "../../../page/shared/dom.js";
import { ROOT } from "./purchase.js";
import { Field, simpleProperties } from "./schema-fields.js";

/**
 * The parameters of a route's path, and the fields of its query that have a schema. The page buys the request that opened it,
 * so other values open the page of another request.
 */
export class RequestForm {
  #path;
  /** @type {readonly Field[]} */
  #ofPath;
  /** @type {readonly Field[]} */
  #ofQuery;
  #problem = h("p", { class: "problem small", role: "alert" });

  /** @param {Pick<Job, "input"> & { readonly route: string }} job */
  constructor({ route, input }) {
    this.#path = route.slice(route.indexOf(" ") + 1);
    const given = pathValues(this.#path, location.pathname);
    const names = [...this.#path.matchAll(PARAMETER)].map(([, name = ""]) => name);
    const strings = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
    this.#ofPath = fieldsOf("path", input?.path ?? { type: "object", properties: strings, required: names });
    this.#ofQuery = fieldsOf("query", input?.query);
    const query = new URLSearchParams(location.search);
    for (const field of this.#ofPath) field.type(given.get(field.name) ?? "");
    for (const field of this.#ofQuery) field.type(query.get(field.name) ?? "");
    const fields = [...this.#ofPath, ...this.#ofQuery];
    if (fields.length === 0) return;
    const change = h("button", { type: "button", click: () => void this.#change() }, "Change the request");
    byId("input", HTMLElement).append(
      ...fields.map(({ element }) => element),
      this.#problem,
      h("p", { class: "actions" }, change),
    );
    // The buyer pays for the request that the fields show.
    const onSubmit = (/** @type {Event} */ event) => {
      if (this.#address === `${location.pathname}${location.search}`) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      void this.#change();
    };
    byId("order", HTMLFormElement).addEventListener("submit", onSubmit, { capture: true });
  }

  /** Path and query with the values of the fields. Unchanged parts keep their spelling. */
  get #address() {
    const before = pathValues(this.#path, location.pathname);
    const values = new Map([
      ...before,
      ...this.#ofPath.map(({ name, text }) => /** @type {const} */ ([name, text])),
    ]);
    const isSamePath = [...before].every(([name, value]) => values.get(name) === value);
    const path = isSamePath
      ? location.pathname
      : `${ROOT.pathname}${withValues(this.#path.slice(1), values)}`;
    const query = new URLSearchParams(location.search);
    let isSameQuery = true;
    for (const { name, text } of this.#ofQuery) {
      if (text === (query.get(name) ?? "")) continue;
      isSameQuery = false;
      if (text === "") query.delete(name);
      else query.set(name, text);
    }
    const search = isSameQuery ? location.search.slice(1) : query.toString();
    return search === "" ? path : `${path}?${search}`;
  }

  /** Opens the page of the request, if the seller accepts the request. */
  async #change() {
    for (const field of [...this.#ofPath, ...this.#ofQuery]) field.showProblem("");
    this.#problem.textContent = "";
    const address = this.#address;
    try {
      const response = await fetch(address, { headers: { accept: "application/json" } });
      if (response.status === 402) return location.assign(address);
      /** @type {Answer} */
      const { error, invalid = [] } = await response.json();
      const known = invalid.map(({ path, message }) => ({ message, field: this.#at(path) }));
      const [first] = known.filter(({ field }) => field !== undefined);
      for (const { field, message } of known) field?.showProblem(`This ${message}.`);
      if (first === undefined) this.#problem.textContent = error ?? `The seller answered ${response.status}.`;
      else first.field?.focus();
    } catch {
      this.#problem.textContent = "The seller cannot be reached now.";
    }
  }

  /** @param {string} pointer `/query/units` @returns {Field | undefined} */
  #at(pointer) {
    const [, place, name] = pointer.split("/");
    return (place === "path" ? this.#ofPath : this.#ofQuery).find((field) => field.name === name);
  }
}

const PARAMETER = /\{([A-Za-z0-9_]+)(\.\.\.)?\}/g;

/** @param {string} place @param {unknown} schema @returns {readonly Field[]} empty for a schema that no form can show */
function fieldsOf(place, schema) {
  const properties = simpleProperties(schema) ?? [];
  return properties.map((property) => new Field({ ...property, isLong: false }, `${place}-${property.name}`));
}

/** Returns the decoded parameters of a path. @param {string} template @param {string} path @returns {Map<string, string>} */
function pathValues(template, path) {
  const parts = path.slice(ROOT.pathname.length).split("/");
  const values = new Map();
  for (const [i, segment] of template.slice(1).split("/").entries()) {
    const [, name, rest] = /^\{([A-Za-z0-9_]+)(\.\.\.)?\}$/.exec(segment) ?? [];
    if (name === undefined) continue;
    const value = rest === undefined ? (parts[i] ?? "") : parts.slice(i).join("/");
    values.set(name, decodeURIComponent(value));
  }
  return values;
}

/** @param {string} template @param {ReadonlyMap<string, string>} values */
function withValues(template, values) {
  return template.replace(PARAMETER, (_, name, rest) => {
    const segments = rest === undefined ? [values.get(name) ?? ""] : (values.get(name) ?? "").split("/");
    return segments.map(encodeURIComponent).join("/");
  });
}
