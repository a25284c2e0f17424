/** @import { DeadLetter } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { announce } from "./announce.js";
import { confirmed, showDeadLetter } from "./dialogs.js";
import { byId, h, setText } from "./dom.js";
import { ago, plural } from "./format.js";
import { createTable } from "./table.js";

const PAGE_SIZE = 50;

/** Dead letters with the actions for each. */
export class DeadLettersPanel {
  #place = byId("dead-letters", HTMLElement);
  #count = byId("dead-letters-count", HTMLElement);
  #problem = byId("dead-letters-problem", HTMLElement);
  #retryAll = byId("retry-all", HTMLButtonElement);
  /** @type {Client} */
  #client;
  /** @type {() => void} */
  #onChange;
  /** @type {string[]} */
  #shown = [];
  /** Calls with an action under way, which further clicks skip. @type {Set<string>} */
  #busy = new Set();
  /** Number of the latest request, and of the latest answer: answers may arrive out of order. */
  #asked = 0;
  #newest = 0;
  /** @type {(items: readonly DeadLetter[]) => void} */
  #update;

  /** @param {{ client: Client, onChange: () => void }} options `onChange` runs after a retry or drop */
  constructor({ client, onChange }) {
    this.#client = client;
    this.#onChange = onChange;
    this.#place.replaceChildren();
    this.#retryAll.onclick = () => this.#retryShown();
    this.#update = createTable(this.#place, {
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
            button("Retry", call_id, () => this.#retry([call_id])),
            button("Drop", call_id, () => this.#drop(call_id), "danger"),
          ],
        },
      ],
    });
  }

  async refresh() {
    const number = ++this.#asked;
    const { dead_letters, next_page_token } = await this.#client.call("ListDeadLetters", {
      page_size: PAGE_SIZE,
    });
    if (number < this.#newest) return;
    this.#newest = number;
    this.#shown = dead_letters.map(({ call_id }) => call_id);
    const count = this.#shown.length;
    setText(this.#count, count === 0 ? "" : `${count}${next_page_token === "" ? "" : "+"}`);
    this.#retryAll.hidden = count < 2;
    setText(this.#retryAll, `Retry these ${count}`);
    this.#update(dead_letters);
  }

  /** @param {string[]} callIds */
  #retry(callIds) {
    return this.#act(callIds, "RetryDeadLetters", "back in the queue");
  }

  async #retryShown() {
    const callIds = this.#shown;
    const sure = await confirmed({
      title: `Retry ${plural(callIds.length, "dead letter")}?`,
      text: "They go back to the queue with their attempts forgiven.",
      action: "Retry all",
    });
    if (sure) await this.#retry(callIds);
  }

  /** @param {string} callId */
  async #drop(callId) {
    const sure = await confirmed({
      title: `Drop call ${callId}?`,
      text: "No runner gets it any more, and this cannot be undone. If it was paid, its client sees that it failed.",
      action: "Drop it",
    });
    if (sure) await this.#act([callId], "DropDeadLetters", "dropped");
  }

  /**
   * @param {string[]} wanted
   * @param {"RetryDeadLetters" | "DropDeadLetters"} method
   * @param {string} done
   */
  async #act(wanted, method, done) {
    const callIds = wanted.filter((callId) => !this.#busy.has(callId));
    if (callIds.length === 0) return;
    for (const callId of callIds) this.#busy.add(callId);
    setText(this.#problem, "");
    const index = this.#shown.indexOf(callIds[0] ?? "");
    try {
      const { statuses } = await this.#client.call(method, { call_ids: callIds });
      const took = statuses.filter((status) => status === "DEAD_LETTER_STATUS_DONE").length;
      const gone = callIds.length - took;
      if (gone > 0) setText(this.#problem, `${plural(gone, "dead letter")} had been dealt with already.`);
      if (took > 0) announce(`${plural(took, "dead letter")} ${done}.`);
      this.#onChange();
      await this.refresh().catch(() => undefined);
      this.#focusRow(index);
    } catch (error) {
      setText(this.#problem, error instanceof Error ? error.message : String(error));
    } finally {
      for (const callId of callIds) this.#busy.delete(callId);
    }
  }

  /** Moves the focus to the next row if its row is gone, unless the user moved it elsewhere. @param {number} index */
  #focusRow(index) {
    const focused = document.activeElement;
    const isLost =
      focused === null || focused === document.body || (focused === this.#retryAll && this.#retryAll.hidden);
    if (!isLost) return;
    const rows = this.#place.querySelectorAll("tbody tr");
    const row = rows[Math.min(index, rows.length - 1)];
    const target = row?.querySelector("button") ?? byId("dead-letters-title", HTMLElement);
    target.focus();
  }
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
