/** @import { Event } from "./api.js" */
import { byId, h, setText } from "./dom.js";
import { describeEvent } from "./event-text.js";
import { ago, plural } from "./format.js";
import { keyedChildren } from "./keyed.js";
import { amount } from "./tokens.js";

/** Calls in the list. */
const MAX_CALLS = 40;
/** Between two updates of the list: it is to be read. */
const REDRAW_MS = 250;
const RATE_WINDOW_MS = 10_000;

/**
 * @typedef {object} FlowingCall One JobCall, or its payment, as far as events have told.
 * @property {string} callId
 * @property {string} job
 * @property {string} stage Names the colour of its state.
 * @property {string} state
 * @property {string} detail
 * @property {number | undefined} percent
 * @property {string} at
 * @property {boolean} isDealt Whether something has been told of it that comes after its payment and its acceptance.
 * @property {{ network: string, asset: string, symbol: string, amount: string } | undefined} paid
 */

/** What flows now, newest on top: one line for each JobCall, that says how far it is. */
export function createFlowPanel() {
  const list = byId("flow", HTMLElement);
  const empty = byId("flow-empty", HTMLElement);
  const rate = byId("flow-rate", HTMLElement);
  const pause = byId("flow-pause", HTMLButtonElement);
  list.replaceChildren();
  /** @type {Map<string, FlowingCall>} */
  const calls = new Map();
  /** @type {{ at: number, kind: "in" | "done" }[]} */
  let recent = [];
  let paused = false;
  /** @type {number | undefined} */
  let redraw;
  const update = keyedChildren(list, { keyOf: (/** @type {FlowingCall} */ { callId }) => callId, render });

  function draw() {
    redraw = undefined;
    if (paused) return;
    empty.hidden = calls.size > 0;
    update([...calls.values()].reverse());
  }

  /** @param {boolean} wanted */
  function hold(wanted) {
    paused = wanted;
    setText(pause, paused ? "Go on" : "Pause");
    pause.setAttribute("aria-pressed", String(paused));
    draw();
  }
  pause.onclick = () => hold(!paused);
  // After another login the page is the same, and this panel a new one.
  hold(false);
  setText(byId("flow-missed", HTMLElement), "");

  return {
    /** @param {Event} event */
    add(event) {
      const { job, ...told } = describeEvent(event);
      if (event.accepted) recent.push({ at: Date.now(), kind: "in" });
      if (event.acked) recent.push({ at: Date.now(), kind: "done" });
      const known = calls.get(event.call_id);
      const isBeginning = event.accepted !== undefined || event.payment_decided !== undefined;
      // Events that are milliseconds apart may come in another order: a line does not go back to the beginning.
      const state =
        isBeginning && known?.isDealt ? known : { ...told, at: event.at ?? "", isDealt: !isBeginning };
      calls.set(event.call_id, {
        ...state,
        callId: event.call_id,
        job: job ?? known?.job ?? "",
        paid: event.payment_decided ?? known?.paid,
      });
      for (const callId of calls.keys()) {
        if (calls.size <= MAX_CALLS) break;
        calls.delete(callId);
      }
      if (redraw === undefined) redraw = setTimeout(draw, REDRAW_MS);
    },
    /** @param {number} missed Events that came too fast for this page. */
    miss(missed) {
      setText(byId("flow-missed", HTMLElement), `${plural(missed, "event")} missed: too fast for this page.`);
    },
    tick() {
      const now = Date.now();
      recent = recent.filter(({ at }) => at > now - RATE_WINDOW_MS);
      const perSecond = (/** @type {"in" | "done"} */ kind) =>
        (recent.filter((one) => one.kind === kind).length / (RATE_WINDOW_MS / 1_000)).toFixed(1);
      setText(rate, `${perSecond("in")} in/s · ${perSecond("done")} done/s`);
    },
  };
}

/** @param {FlowingCall} call */
function render({ callId, job, stage, state, detail, percent, at, paid }) {
  return h(
    "li",
    { class: "call", "data-stage": stage },
    h("span", { class: "badge", "data-stage": stage }, state),
    h("span", { class: "call-id mono" }, `#${callId}`),
    h("span", { class: "call-job" }, job),
    h(
      "span",
      { class: "call-detail" },
      paid && amount(paid, BigInt(paid.amount)),
      percent !== undefined && h("progress", { value: percent, max: 100, "aria-label": `Call ${callId}` }),
      detail !== "" && h("span", {}, detail),
    ),
    h("span", { class: "call-time muted" }, ago(at)),
  );
}
