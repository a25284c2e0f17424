/** @import { Totals } from "./api.js" */
import { byId, setText } from "./dom.js";
import { ago, countText } from "./format.js";

/** Totals at the top of the page. */
export function createTotalsPanel() {
  const tile = (/** @type {string} */ name) => {
    const value = byId(`${name}-value`, HTMLElement);
    const note = byId(`${name}-note`, HTMLElement);
    return {
      /** @param {string} text @param {string | Node} noteText @param {"" | "warn" | "bad"} [tone] */
      show(text, noteText, tone = "") {
        setText(value, text);
        if (typeof noteText === "string") setText(note, noteText);
        else note.replaceChildren(noteText);
        value.dataset.tone = tone;
      },
    };
  };
  const waiting = tile("waiting");
  const running = tile("running");
  const undecided = tile("undecided");
  const dead = tile("dead");
  const paid = tile("paid");
  const journal = tile("journal");

  return {
    /** @param {Totals} totals */
    update({ calls, payments, paid_calls, balanced, oldest_ready_at }) {
      if (calls === undefined || payments === undefined || paid_calls === undefined) return;
      waiting.show(
        countText(calls.ready),
        oldest_ready_at === undefined ? "nothing waits" : oldestSince(oldest_ready_at),
      );
      running.show(countText(calls.leased), "out at a runner");
      undecided.show(
        countText(payments.intent),
        `${countText(payments.unresolved)} unresolved`,
        payments.unresolved === "0" ? "" : "warn",
      );
      dead.show(
        countText(calls.dead),
        calls.dead === "0" ? "none" : "to retry or drop",
        calls.dead === "0" ? "" : "bad",
      );
      paid.show(countText(payments.settled), `${countText(payments.failed)} failed`);
      journal.show(
        balanced ? "balanced" : "NOT balanced",
        `${countText(paid_calls.done)} of ${countText(payments.settled)} paid jobs done`,
        balanced ? "" : "bad",
      );
    },
  };
}

/** @param {string} since */
function oldestSince(since) {
  const note = document.createElement("span");
  note.append("oldest since ", ago(since, ""));
  return note;
}
