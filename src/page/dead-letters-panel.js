/** @import { DeadLetter } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { announce } from "./announce.js";
import { confirmed } from "./confirm.js";
import { showDeadLetter } from "./dead-letter-dialog.js";
import { byId, h, setText } from "./dom.js";
import { ago, plural } from "./format.js";
import { createTable } from "./table.js";

const PAGE_SIZE = 50;

/**
 * Dead letters, each with what can be done about it.
 * @param {{ client: Client, onChange: () => void }} options `onChange`: something was retried or dropped
 */
export function createDeadLettersPanel({ client, onChange }) {
  const place = byId("dead-letters", HTMLElement);
  const count = byId("dead-letters-count", HTMLElement);
  const problem = byId("dead-letters-problem", HTMLElement);
  const retryAll = byId("retry-all", HTMLButtonElement);
  place.replaceChildren();
  /** @type {string[]} */
  let shown = [];
  /** Calls that something is being done about: pressing again does nothing more. @type {Set<string>} */
  const beingDone = new Set();

  /**
   * @param {string[]} asked
   * @param {"RetryDeadLetters" | "DropDeadLetters"} method
   * @param {string} done
   */
  async function act(asked, method, done) {
    const callIds = asked.filter((callId) => !beingDone.has(callId));
    if (callIds.length === 0) return;
    for (const callId of callIds) beingDone.add(callId);
    setText(problem, "");
    const index = shown.indexOf(callIds[0] ?? "");
    try {
      const { statuses } = await client.call(method, { call_ids: callIds });
      const took = statuses.filter((status) => status === "DEAD_LETTER_STATUS_DONE").length;
      const gone = callIds.length - took;
      if (gone > 0) setText(problem, `${plural(gone, "dead letter")} had been dealt with already.`);
      if (took > 0) announce(`${plural(took, "dead letter")} ${done}.`);
      onChange();
      await refresh().catch(() => undefined);
      focusRow(index);
    } catch (error) {
      setText(problem, error instanceof Error ? error.message : String(error));
    } finally {
      for (const callId of callIds) beingDone.delete(callId);
    }
  }

  /** Where the row is gone, and the focus with it, the next one gets it. @param {number} index */
  function focusRow(index) {
    const focused = document.activeElement;
    const isLost = focused === null || focused === document.body || (focused === retryAll && retryAll.hidden);
    // Who has gone on to something else is not called back.
    if (!isLost) return;
    const rows = place.querySelectorAll("tbody tr");
    const row = rows[Math.min(index, rows.length - 1)];
    const target = row?.querySelector("button") ?? byId("dead-letters-title", HTMLElement);
    target.focus();
  }

  /** @param {string} callId */
  async function drop(callId) {
    const sure = await confirmed({
      title: `Drop call ${callId}?`,
      text: "No runner gets it any more, and this cannot be undone. If it was paid, its client sees that it failed.",
      action: "Drop it",
    });
    if (sure) await act([callId], "DropDeadLetters", "dropped");
  }

  retryAll.onclick = async () => {
    const callIds = shown;
    const sure = await confirmed({
      title: `Retry ${plural(callIds.length, "dead letter")}?`,
      text: "They go back to the queue with their attempts forgiven.",
      action: "Retry all",
    });
    if (sure) await act(callIds, "RetryDeadLetters", "back in the queue");
  };

  const update = createTable(place, {
    caption: "Dead letters",
    empty: "There are no dead letters.",
    keyOf: (/** @type {DeadLetter} */ { call_id }) => call_id,
    columns: [
      { label: "Call", class: "mono", cell: ({ call_id }) => `#${call_id}` },
      {
        label: "Job",
        class: "nowrap",
        cell: ({ origin, service_id, job_id }) =>
          origin === "x402" ? `paid ${service_id}/${job_id}` : `webhook ${job_id}`,
      },
      { label: "Reason", class: "wide", cell: ({ reason }) => reason },
      { label: "Attempts", class: "number", cell: ({ attempts }) => String(attempts) },
      { label: "Accepted", class: "nowrap", cell: ({ enqueued_at }) => ago(enqueued_at) },
      { label: "Died", class: "nowrap", cell: ({ dead_at }) => ago(dead_at) },
      {
        label: "Actions",
        class: "actions",
        cell: ({ call_id }) => [
          button("Show", call_id, () => showDeadLetter(client, call_id)),
          button("Retry", call_id, () => act([call_id], "RetryDeadLetters", "back in the queue")),
          button("Drop", call_id, () => drop(call_id), "danger"),
        ],
      },
    ],
  });

  // It is asked for by the clock and after each action: an older answer may come after a newer one.
  let asked = 0;
  let newest = 0;
  async function refresh() {
    const number = ++asked;
    const { dead_letters, next_page_token } = await client.call("ListDeadLetters", { page_size: PAGE_SIZE });
    if (number < newest) return;
    newest = number;
    shown = dead_letters.map(({ call_id }) => call_id);
    setText(count, shown.length === 0 ? "" : `${shown.length}${next_page_token === "" ? "" : "+"}`);
    retryAll.hidden = shown.length < 2;
    setText(retryAll, `Retry these ${shown.length}`);
    update(dead_letters);
  }

  return { refresh };
}

/**
 * @param {string} text
 * @param {string} callId
 * @param {() => Promise<void>} click
 * @param {string} [tone]
 */
function button(text, callId, click, tone = "") {
  return h("button", { type: "button", class: tone, "aria-label": `${text} call ${callId}`, click }, text);
}
