/** @import { Info } from "./api.js" */
import { announce } from "./announce.js";
import { byId, setText } from "./dom.js";
import { ago } from "./format.js";

/** How the page itself is doing, and jobgate: at the top. */
export function createStatus() {
  const connection = byId("connection", HTMLElement);
  const store = byId("store-status", HTMLElement);
  const problem = byId("problem", HTMLElement);
  let isStreaming = false;
  let isAnswering = true;

  function show() {
    const [state, text] = !isAnswering
      ? ["bad", "Not reachable"]
      : isStreaming
        ? ["good", "Live"]
        : ["warn", "Polling"];
    // Losing the stream is no news: the figures still come.
    if ((connection.dataset.tone === "bad") !== (state === "bad")) announce(`${text}.`);
    connection.dataset.tone = state;
    setText(connection, text);
  }

  return {
    /** Whether events come in. @param {boolean} open */
    streaming(open) {
      isStreaming = open;
      show();
    },
    answered() {
      isAnswering = true;
      setText(problem, "");
      problem.hidden = true;
      show();
    },
    /** @param {unknown} error */
    failed(error) {
      isAnswering = false;
      setText(problem, `${error instanceof Error ? error.message : error} What is shown may be out of date.`);
      problem.hidden = false;
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
