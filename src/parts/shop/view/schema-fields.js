import { h } from "../../../page/shared/dom.js";

/** Most fields of a form. The input of a larger schema is edited as JSON. */
const MAX_FIELDS = 8;
/** Longest text that fits one line. */
const ONE_LINE = 120;
/** Keywords that a form of independent fields cannot express. */
const COMBINING = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "patternProperties"];

/**
 * @typedef {object} Property
 * @property {string} name
 * @property {string} type
 * @property {boolean} isRequired
 * @property {string} [title]
 * @property {string} [description]
 * @property {readonly (string | number)[]} [choices]
 * @property {unknown} [initial]
 * @property {boolean} isLong
 */

/**
 * Returns the properties of a schema that a small form can hold: an object of texts, numbers, choices and yes or no.
 * @param {any} schema JSON Schema
 * @returns {readonly Property[] | undefined}
 */
export function simpleProperties(schema) {
  if (schema?.type !== "object" || COMBINING.some((keyword) => keyword in schema)) return undefined;
  const entries = Object.entries(schema.properties ?? {});
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (entries.length === 0 || entries.length > MAX_FIELDS) return undefined;
  if (!required.every((/** @type {string} */ name) => entries.some(([known]) => known === name)))
    return undefined;
  const properties = entries.map(([name, property]) =>
    simpleProperty(name, property, required.includes(name)),
  );
  return properties.every((property) => property !== undefined) ? properties : undefined;
}

/** @param {string} name @param {any} property @param {boolean} isRequired @returns {Property | undefined} */
function simpleProperty(name, property, isRequired) {
  if (property === null || typeof property !== "object") return undefined;
  if (COMBINING.some((keyword) => keyword in property)) return undefined;
  const { type, enum: choices, title, description, default: initial, maxLength } = property;
  const isChoice =
    Array.isArray(choices) && choices.every((choice) => ["string", "number"].includes(typeof choice));
  if (!isChoice && (choices !== undefined || !["string", "number", "integer", "boolean"].includes(type))) {
    return undefined;
  }
  return {
    name,
    type: isChoice ? "choice" : type,
    isRequired,
    ...(typeof title === "string" && { title }),
    ...(typeof description === "string" && { description }),
    ...(isChoice && { choices }),
    ...(initial !== undefined && { initial }),
    isLong: type === "string" && !property.format && !(maxLength <= ONE_LINE),
  };
}

/** One property of the input as a labelled control. */
export class Field {
  /** @type {Property} */
  #property;
  /** @type {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} */
  #control;
  #problem = h("p", { class: "problem small" });
  /** @type {HTMLElement} */
  element;

  /** @param {Property} property @param {string} id unique in the page */
  constructor(property, id) {
    const { name, title, description, isRequired } = property;
    this.#property = property;
    this.#control = controlOf(property);
    this.#control.id = id;
    this.#problem.id = `${id}-problem`;
    const note =
      description === undefined ? undefined : h("p", { class: "muted small", id: `${id}-note` }, description);
    this.#control.setAttribute("aria-describedby", [note?.id, this.#problem.id].filter(Boolean).join(" "));
    if (isRequired) this.#control.setAttribute("aria-required", "true");
    this.element = h(
      "div",
      { class: "field" },
      h(
        "label",
        { for: id },
        title ?? readable(name),
        !isRequired && h("span", { class: "muted" }, " (optional)"),
      ),
      note,
      this.#control,
      this.#problem,
    );
  }

  get name() {
    return this.#property.name;
  }

  /** Value as JSON, with the typed digits; undefined if the field is empty. @returns {string | undefined} */
  get json() {
    const { value } = this.#control;
    const { type, isRequired } = this.#property;
    switch (type) {
      case "choice":
      case "boolean":
        return value === "" ? undefined : value;
      case "string":
        return value === "" && !isRequired ? undefined : JSON.stringify(value);
      default:
        // A number keeps all its digits. Other text is sent as a string, which the job refuses.
        if (value.trim() === "") return undefined;
        return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(value.trim())
          ? value.trim()
          : JSON.stringify(value);
    }
  }

  /** Typed value, or the text of the choice; empty if the field is empty. */
  get text() {
    const { json } = this;
    return json === undefined ? "" : json.startsWith('"') ? JSON.parse(json) : json;
  }

  /** Sets the value from its text in a query. @param {string} text */
  type(text) {
    if (text === "") return this.fill(undefined);
    if (!(this.#control instanceof HTMLSelectElement)) return this.fill(text);
    const { type, choices = [] } = this.#property;
    this.fill(type === "boolean" ? text === "true" : choices.find((choice) => String(choice) === text));
  }

  /** @param {unknown} value as in JSON; undefined empties the field */
  fill(value) {
    if (value === undefined) this.#control.value = "";
    else
      this.#control.value =
        this.#control instanceof HTMLSelectElement ? JSON.stringify(value) : String(value);
  }

  /** @param {string} text empty when there is no problem */
  showProblem(text) {
    this.#problem.textContent = text;
    this.#control.setAttribute("aria-invalid", String(text !== ""));
  }

  focus() {
    this.#control.focus();
  }
}

/** Returns a property's name as words: `max_words` is "Max words". @param {string} name */
function readable(name) {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {Property} property */
function controlOf({ type, choices, isLong, isRequired }) {
  const option = (/** @type {string} */ value, /** @type {string} */ text) => h("option", { value }, text);
  const none = option("", isRequired ? "Choose …" : "–");
  switch (type) {
    case "choice":
      return h(
        "select",
        {},
        none,
        ...(choices ?? []).map((choice) => option(JSON.stringify(choice), String(choice))),
      );
    case "boolean":
      return h("select", {}, none, option("true", "Yes"), option("false", "No"));
    case "string":
      return isLong ? h("textarea", { rows: 4 }) : h("input", { type: "text", autocomplete: "off" });
    default:
      return h("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
  }
}
