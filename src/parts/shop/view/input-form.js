/** @import { InputProblem, Job } from "./data.js" */
import { byId, h } from "../../../page/shared/dom.js";
import { Field, simpleProperties } from "./schema-fields.js";

const JSON_TYPE = /^application\/(?:[^;]*\+)?json(?:;|$)/i;
const TEXT_TYPE = /^text\/|^application\/x-www-form-urlencoded/i;

/** A body that is sent to the job. @typedef {{ bytes: Uint8Array<ArrayBuffer>, contentType: string }} Body */

/** Error for an input that is not complete. The message is for the buyer. */
export class InputMissing extends Error {}

/** The editor of a job's input: fields of a small schema, JSON, plain text, or a file. */
export class InputForm {
  #contentType;
  #place = byId("input", HTMLElement);
  #problem = byId("input-problem", HTMLElement);
  /** Fields of the schema; empty if the schema is too large for a form. @type {readonly Field[]} */
  #fields = [];
  #text = h("textarea", { id: "input-text", rows: 8, spellcheck: "false", autocapitalize: "off" });
  #file = h("input", { id: "input-file", type: "file" });
  /** @type {"fields" | "text" | "file" | "none"} */
  #shown = "text";
  #switch = h("button", { type: "button", class: "quiet" });

  /**
   * @param {Job["input"]} input
   * @param {string} [request] request that is sent without a body
   */
  constructor(input, request) {
    this.#contentType = input?.content_type ?? "text/plain;charset=UTF-8";
    if (request !== undefined) {
      this.#shown = "none";
      this.#place.replaceChildren(h("p", {}, h("code", { class: "mono" }, request)));
      return;
    }
    const isJson = JSON_TYPE.test(this.#contentType);
    const { example } = input ?? {};
    if (isJson) {
      const properties = simpleProperties(input?.schema) ?? [];
      this.#fields = properties.map((property, i) => new Field(property, `field-${i}`));
      const defaults = Object.fromEntries(properties.map(({ name, initial }) => [name, initial]));
      this.#text.value = JSON.stringify(example ?? defaults, null, 2);
    } else if (!TEXT_TYPE.test(this.#contentType)) {
      this.#shown = "file";
      this.#file.accept = this.#contentType;
    } else this.#text.value = typeof example === "string" ? example : "";
    this.#text.classList.toggle("mono", isJson);
    this.#text.setAttribute("aria-describedby", "input-problem");
    this.#file.setAttribute("aria-describedby", "input-problem");
    this.#switch.addEventListener("click", () => this.#change());
    if (this.#fields.length > 0) byId("input-tools", HTMLElement).append(this.#switch);
    if (!this.#fillFields()) this.#show(this.#shown);
  }

  /** Returns the body to send. @returns {Promise<Body>} @throws InputMissing */
  read() {
    this.showProblems([]);
    return this.peek();
  }

  /** Returns the current body without showing problems. @returns {Promise<Body>} @throws InputMissing */
  async peek() {
    const contentType = this.#contentType;
    if (this.#shown === "none") return { bytes: new Uint8Array(), contentType };
    if (this.#shown === "file") {
      const [file] = this.#file.files ?? [];
      if (file === undefined) throw new InputMissing("Choose a file first.");
      return { bytes: new Uint8Array(await file.arrayBuffer()), contentType };
    }
    const text = this.#shown === "fields" ? this.#fieldsText() : this.#text.value;
    if (JSON_TYPE.test(contentType)) {
      try {
        JSON.parse(text);
      } catch (error) {
        throw new InputMissing(`This is not JSON: ${error instanceof Error ? error.message : error}`);
      }
    }
    return { bytes: new TextEncoder().encode(text), contentType };
  }

  /** Shows an earlier body again. @param {Uint8Array} bytes */
  restore(bytes) {
    if (this.#shown === "file" || this.#shown === "none") return;
    this.#text.value = new TextDecoder().decode(bytes);
    if (!this.#fillFields()) this.#show("text");
  }

  /** Shows each problem of the input at its field. @param {readonly InputProblem[]} problems */
  showProblems(problems) {
    const others = [];
    for (const field of this.#fields) field.showProblem("");
    for (const { path, message } of [...problems].reverse()) {
      const name = path.split("/")[1]?.replaceAll("~1", "/").replaceAll("~0", "~");
      const field = this.#shown === "fields" ? this.#fields.find((known) => known.name === name) : undefined;
      if (field === undefined) others.unshift(`${path === "" ? "The input" : path} ${message}.`);
      else {
        field.showProblem(`This ${message}.`);
        field.focus();
      }
    }
    this.showProblem(others.join("\n"));
  }

  /** @param {string} text */
  showProblem(text) {
    this.#problem.textContent = text;
    const control = this.#shown === "file" ? this.#file : this.#text;
    control.setAttribute("aria-invalid", String(text !== ""));
    if (text !== "" && this.#shown !== "fields") control.focus();
  }

  /** @param {"fields" | "text" | "file" | "none"} kind */
  #show(kind) {
    this.#shown = kind;
    this.#switch.textContent = kind === "fields" ? "Edit as JSON" : "Edit as form";
    if (kind === "fields") return this.#place.replaceChildren(...this.#fields.map(({ element }) => element));
    const control = kind === "file" ? this.#file : this.#text;
    const type = this.#contentType.split(";")[0];
    const label = h("label", { for: control.id }, kind === "file" ? `File (${type})` : `Body (${type})`);
    this.#place.replaceChildren(h("div", { class: "field" }, label, control));
  }

  #change() {
    this.showProblems([]);
    if (this.#shown === "fields") {
      this.#text.value = this.#fieldsText();
      this.#show("text");
    } else if (!this.#fillFields())
      this.showProblem("This does not fit the form: only its own fields, as one object.");
  }

  /** Moves the text into the fields. @returns false if the fields cannot hold all of the text */
  #fillFields() {
    const value = parseObject(this.#text.value);
    const names = this.#fields.map(({ name }) => name);
    if (names.length === 0 || value === undefined) return false;
    const isSimple = (/** @type {unknown} */ part) => part !== null && typeof part !== "object";
    if (!Object.entries(value).every(([name, part]) => names.includes(name) && isSimple(part))) return false;
    for (const field of this.#fields) field.fill(value[field.name]);
    this.#show("fields");
    return true;
  }

  #fieldsText() {
    const lines = this.#fields.flatMap(({ name, json }) =>
      json === undefined ? [] : [`  ${JSON.stringify(name)}: ${json}`],
    );
    return lines.length === 0 ? "{}" : `{\n${lines.join(",\n")}\n}`;
  }
}

/** @param {string} text @returns {Record<string, unknown> | undefined} */
function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
