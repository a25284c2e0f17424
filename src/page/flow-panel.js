/** @import { Event } from "./api.js" */
import { byId, h, keyedChildren, setText } from "./dom.js";
import { describeEvent } from "./event-text.js";
import { ago, plural } from "./format.js";
import { amount } from "./tokens.js";

const MAX_CALLS = 40;
/** Shortest time between two redraws, so that the list can be read. */
const REDRAW_MS = 250;
const RATE_WINDOW_MS = 10_000;

/**
 * @typedef {object} FlowingCall A JobCall, or its payment, as its events describe it.
 * @property {string} callId
 * @property {string} job
 * @property {string} stage CSS stage that colours the state.
 * @property {string} state
 * @property {string} detail
 * @property {number | undefined} percent
 * @property {string} at
 * @property {boolean} isDealt True once an event later than payment and acceptance was seen.
 * @property {{ network: string, asset: string, symbol: string, amount: string } | undefined} paid
 */

/** "What flows now": one line per JobCall with its state, newest first. */
export class FlowPanel {
  #empty = byId("flow-empty", HTMLElement);
  #missed = byId("flow-missed", HTMLElement);
  #pause = byId("flow-pause", HTMLButtonElement);
  #isPaused = false;
  /** @type {Map<string, FlowingCall>} */
  #calls = new Map();
  /** @type {{ at: number, kind: "in" | "done" }[]} */
  #recent = [];
  /** @type {number | undefined} */
  #redraw;
  /** @type {(calls: readonly FlowingCall[]) => void} */
  #update;

  constructor() {
    const list = byId("flow", HTMLElement);
    // After another login the page keeps its elements, and this panel is new.
    list.replaceChildren();
    this.#update = keyedChildren(list, { keyOf: ({ callId }) => callId, render });
    this.#pause.onclick = () => this.#setPaused(!this.#isPaused);
    this.#setPaused(false);
    setText(this.#missed, "");
  }

  /** @param {Event} event */
  add(event) {
    const { job, ...described } = describeEvent(event);
    if (event.accepted) this.#recent.push({ at: Date.now(), kind: "in" });
    if (event.acked) this.#recent.push({ at: Date.now(), kind: "done" });
    const known = this.#calls.get(event.call_id);
    const isBeginning = event.accepted !== undefined || event.payment_decided !== undefined;
    // Events milliseconds apart may arrive out of order: a line never returns to its beginning.
    const state =
      isBeginning && known?.isDealt ? known : { ...described, at: event.at ?? "", isDealt: !isBeginning };
    this.#calls.set(event.call_id, {
      ...state,
      callId: event.call_id,
      job: job ?? known?.job ?? "",
      paid: event.payment_decided ?? known?.paid,
    });
    for (const callId of this.#calls.keys()) {
      if (this.#calls.size <= MAX_CALLS) break;
      this.#calls.delete(callId);
    }
    this.#redraw ??= setTimeout(() => this.#draw(), REDRAW_MS);
  }

  /** @param {number} missed events that arrived too fast for this page */
  miss(missed) {
    setText(this.#missed, `${plural(missed, "event")} missed: too fast for this page.`);
  }

  tick() {
    const now = Date.now();
    this.#recent = this.#recent.filter(({ at }) => at > now - RATE_WINDOW_MS);
    const perSecond = (/** @type {"in" | "done"} */ kind) =>
      (this.#recent.filter((one) => one.kind === kind).length / (RATE_WINDOW_MS / 1_000)).toFixed(1);
    setText(byId("flow-rate", HTMLElement), `${perSecond("in")} in/s · ${perSecond("done")} done/s`);
  }

  #draw() {
    this.#redraw = undefined;
    if (this.#isPaused) return;
    this.#empty.hidden = this.#calls.size > 0;
    this.#update([...this.#calls.values()].reverse());
  }

  /** @param {boolean} isPaused */
  #setPaused(isPaused) {
    this.#isPaused = isPaused;
    setText(this.#pause, isPaused ? "Go on" : "Pause");
    this.#pause.setAttribute("aria-pressed", String(isPaused));
    this.#draw();
  }
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
