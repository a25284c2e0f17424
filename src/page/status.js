/** @import { Info } from "./api.js" */
import { announce } from "./announce.js";
import { CallError } from "./connect.js";
import { byId, setText } from "./dom.js";
import { ago } from "./format.js";

/** How the page itself is doing, and jobgate: at the top. */
export function createStatus() {
  const connection = byId("connection", HTMLElement);
  const store = byId("store-status", HTMLElement);
  const problem = byId("problem", HTMLElement);
  let isStreaming = false;
  /** What went wrong with each question when it was last asked. @type {Map<string, unknown>} */
  const failures = new Map();

  function show() {
    const errors = [...failures.values()];
    const [tone, text] = errors.some((error) => error instanceof CallError && error.code === "unreachable")
      ? ["bad", "Not reachable"]
      : errors.length > 0
        ? ["bad", "Failing"]
        : isStreaming
          ? ["good", "Live"]
          : ["warn", "Polling"];
    // That it fails, the problem says aloud itself, as long as it is the same one once.
    if (connection.dataset.tone === "bad" && tone !== "bad") announce(`${text}.`);
    connection.dataset.tone = tone;
    setText(connection, text);
    const messages = new Set(errors.map((error) => (error instanceof Error ? error.message : String(error))));
    setText(
      problem,
      errors.length === 0 ? "" : `${[...messages].join(" ")} What is shown may be out of date.`,
    );
    problem.hidden = errors.length === 0;
  }

  return {
    /** Whether events come in. @param {boolean} open */
    streaming(open) {
      isStreaming = open;
      show();
    },
    /** @param {string} question */
    answered(question) {
      failures.delete(question);
      show();
    },
    /** @param {string} question @param {unknown} error */
    failed(question, error) {
      failures.set(question, error);
      show();
    },
    /** @param {Info} info */
    inform({ version, started_at, store: state }) {
      setText(byId("version", HTMLElement), version);
      const uptime = byId("uptime", HTMLElement);
      if (uptime.dataset.since !== started_at) {
        uptime.dataset.since = started_at ?? "";
        uptime.replaceChildren("up ", ago(started_at, ""));
      }
      const [tone, text] = !state?.writable
        ? ["bad", `Store not writable: ${state?.reason ?? ""}`]
        : state.full
          ? ["warn", "Queue full"]
          : ["good", "Store writable"];
      store.dataset.tone = tone;
      setText(store, text);
    },
  };
}
