/** @import { CallState } from "./data.js" */
/** @import { Call } from "./purchase.js" */
import { announce } from "../../../page/shared/announce.js";
import { byId, h } from "../../../page/shared/dom.js";
import { followCall, ROOT, resultOf } from "./purchase.js";
import { copyButton, resultView, saveLink } from "./result.js";

/** Panel with the state and the result of a paid call. */
export class Outcome {
  #panel = byId("outcome", HTMLElement);
  #title = byId("outcome-title", HTMLElement);
  #content = byId("outcome-content", HTMLElement);
  #onAgain;

  /** @param {{ onAgain: () => void }} options `onAgain` is called when the buyer wants another run */
  constructor({ onAgain }) {
    this.#onAgain = onAgain;
  }

  /**
   * Shows a call until it ends, then its result.
   * @param {Call} call
   * @param {{ title: string, url: string, paid: string | undefined }} bought
   */
  async follow(call, bought) {
    const keep = keepBox(call, bought);
    const words = h("p", {}, "Paid. The job waits for its turn.");
    const progress = h("progress", { "aria-label": "Progress of the job" });
    this.#show("Paid", words, progress, keep);
    this.#title.focus();
    const last = await followCall(call, (state) => showState(state, words, progress));
    const again = h(
      "p",
      { class: "actions" },
      h("button", { type: "button", class: "primary", click: () => this.#again() }, "Buy another run"),
    );
    const hasFailed = last?.state === "failed";
    if (last?.state === "succeeded" || (hasFailed && last.status !== undefined)) {
      const { result, contentType } = await resultOf(call);
      const title = hasFailed ? `The job failed with status ${last.status}` : "Result";
      this.#show(title, ...(await resultView(result, contentType, call.id)), keep, again);
      announce(hasFailed ? `${title}.` : "The result is here.");
    } else if (hasFailed) {
      const reason = last.reason ?? "The seller gave no reason.";
      this.#show(
        "The job failed",
        h("p", { class: "notice problem" }, reason),
        h("p", {}, "Show the seller these details of the purchase:"),
        keep,
        again,
      );
      announce("The job failed.");
    } else {
      this.#show(
        "The call is gone",
        h("p", {}, "The seller does not keep this call any more, or the access token is wrong."),
        keep,
        again,
      );
    }
    this.#title.focus();
  }

  #again() {
    this.#panel.hidden = true;
    this.#onAgain();
  }

  /** @param {string} title @param {...Element} content */
  #show(title, ...content) {
    this.#title.textContent = title;
    this.#content.replaceChildren(...content);
    this.#panel.hidden = false;
  }
}

/** @param {CallState} state @param {HTMLElement} words @param {HTMLProgressElement} bar */
function showState({ state, attempt = 0, progress }, words, bar) {
  const text = {
    queued: attempt > 0 ? "Paid. The job is tried again soon." : "Paid. The job waits for its turn.",
    running: "Paid. The job runs.",
    succeeded: "The job is done.",
    failed: "The job failed.",
  }[state];
  const full = progress?.text ? `${text} ${progress.text}` : text;
  if (words.textContent !== full) {
    words.textContent = full;
    announce(full);
  }
  if (progress?.percent !== undefined) {
    bar.max = 100;
    bar.value = progress.percent;
  }
}

/**
 * Everything that the buyer needs to see this call again, from any computer.
 * @param {Call} call
 * @param {{ title: string, url: string, paid: string | undefined }} bought
 */
function keepBox({ id, token, receipt, transaction, payer }, { title, url, paid }) {
  const address = new URL(`x402/calls/${id}`, ROOT).href;
  const kept = { job: title, url, paid, payer, transaction, receipt, call: address, access_token: token };
  /** @type {[string, string | undefined][]} */
  const rows = [
    ["Paid", paid],
    ["Transaction", transaction],
    ["Receipt", receipt],
    ["Call", address],
    ["Access token", token],
  ];
  return h(
    "details",
    { class: "keep" },
    h("summary", {}, "Receipt and access token"),
    h(
      "p",
      { class: "muted small" },
      "This tab keeps them until you close it. Whoever has the access token can read the result.",
    ),
    h(
      "dl",
      {},
      ...rows.flatMap(([name, value]) =>
        value === undefined
          ? []
          : [
              h(
                "div",
                {},
                h("dt", {}, name),
                h("dd", {}, h("span", { class: "mono" }, value), copyButton(value, "Copy", `Copy: ${name}`)),
              ),
            ],
      ),
    ),
    saveLink(JSON.stringify(kept, null, 2), `receipt-${id}.json`, "Save as a file"),
  );
}
