/** @import { Child } from "../../../page/shared/dom.js" */
import { announce } from "../../../page/shared/announce.js";
import { byId, h } from "../../../page/shared/dom.js";

const STEPS = /** @type {const} */ ([
  ["check", "Check your input"],
  ["connect", "Connect the wallet"],
  ["sign", "Sign the payment in the wallet"],
  ["settle", "Settle the payment"],
]);

/**
 * Shows a group of radio buttons. The earlier choice stays chosen.
 * @param {HTMLFieldSetElement} place
 * @param {string} legend
 * @param {readonly { value: string, label: string, note?: string, icon?: Child, mark?: Child }[]} items
 */
export function showChoices(place, legend, items) {
  const chosen = /** @type {HTMLInputElement | null} */ (place.querySelector(":checked"))?.value;
  const chosenIndex = Math.max(
    0,
    items.findIndex(({ value }) => value === chosen),
  );
  place.replaceChildren(
    h("legend", {}, legend),
    ...items.map(({ value, label, note, icon, mark }, i) =>
      h(
        "label",
        { class: "option" },
        h("input", { type: "radio", name: place.id, value, checked: i === chosenIndex }),
        icon,
        h(
          "span",
          { class: "option-label" },
          label,
          note !== undefined && h("span", { class: "muted small" }, note),
        ),
        mark,
      ),
    ),
  );
}

/** Shows how far the purchase is. @param {(typeof STEPS)[number][0]} now */
export function showStep(now) {
  const index = STEPS.findIndex(([step]) => step === now);
  const stateOf = (/** @type {number} */ i) => (i < index ? "done" : i === index ? "now" : "later");
  const steps = byId("steps", HTMLElement);
  steps.hidden = false;
  steps.replaceChildren(...STEPS.map(([, text], i) => h("li", { "data-state": stateOf(i) }, text)));
  announce(STEPS[index]?.[1] ?? "");
}

/** Adds an explanation to the current step, because it takes long. @param {string} words */
export function explainStep(words) {
  const step = document.querySelector('#steps [data-state="now"]');
  step?.querySelector(".muted")?.remove();
  step?.append(h("span", { class: "muted small" }, words));
  announce(words);
}

/** Ends the current step. @param {"done" | "failed"} state */
export function endStep(state) {
  for (const step of document.querySelectorAll('#steps [data-state="now"]')) {
    step.setAttribute("data-state", state);
  }
}

/** Explains a refusal that is worded for programs. @param {string | undefined} code */
export function explain(code) {
  switch (code) {
    case "caller_not_permitted":
      return "The seller does not sell this job to this account. ";
    case "settlement_failed":
    case "payment_invalid":
      return "The payment did not go through. Check that the account has enough of the token. ";
    default:
      return undefined;
  }
}
