/** @import { Info } from "./api.js" */
import { announce } from "./announce.js";
import { CallError } from "./connect.js";
import { byId, setText } from "./dom.js";
import { ago } from "./format.js";

/** Connection, store and uptime at the top of the page, and the line that explains failures. */
export class Status {
  #connection = byId("connection", HTMLElement);
  #store = byId("store-status", HTMLElement);
  #problem = byId("problem", HTMLElement);
  #isStreaming = false;
  /** Errors of the questions that failed when last asked. @type {Map<string, unknown>} */
  #failures = new Map();

  /** @param {boolean} isOpen true while the event stream is open */
  streaming(isOpen) {
    this.#isStreaming = isOpen;
    this.#show();
  }

  /** @param {string} question */
  answered(question) {
    this.#failures.delete(question);
    this.#show();
  }

  /** @param {string} question @param {unknown} error */
  failed(question, error) {
    this.#failures.set(question, error);
    this.#show();
  }

  /** @param {Info} info */
  inform({ version, started_at, store }) {
    setText(byId("version", HTMLElement), version);
    const uptime = byId("uptime", HTMLElement);
    if (uptime.dataset.since !== started_at) {
      uptime.dataset.since = started_at ?? "";
      uptime.replaceChildren("up ", ago(started_at, ""));
    }
    const [tone, text] = !store?.writable
      ? ["bad", `Store not writable: ${store?.reason ?? ""}`]
      : store.full
        ? ["warn", "Queue full"]
        : ["good", "Store writable"];
    this.#store.dataset.tone = tone;
    setText(this.#store, text);
  }

  #show() {
    const errors = [...this.#failures.values()];
    const [tone, text] = errors.some((error) => error instanceof CallError && error.code === "unreachable")
      ? ["bad", "Not reachable"]
      : errors.length > 0
        ? ["bad", "Failing"]
        : this.#isStreaming
          ? ["good", "Live"]
          : ["warn", "Polling"];
    // Failures are announced by the problem line, an ARIA alert.
    if (this.#connection.dataset.tone === "bad" && tone !== "bad") announce(`${text}.`);
    this.#connection.dataset.tone = tone;
    setText(this.#connection, text);
    const messages = new Set(errors.map((error) => (error instanceof Error ? error.message : String(error))));
    setText(
      this.#problem,
      errors.length === 0 ? "" : `${[...messages].join(" ")} What is shown may be out of date.`,
    );
    this.#problem.hidden = errors.length === 0;
  }
}
