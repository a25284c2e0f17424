import { byId } from "./dom.js";

/** Answers the question that was asked last. @type {(sure: boolean) => void} */
let answer = () => {};

/**
 * Asks before something that cannot be undone. Escape is a no.
 * @param {{ title: string, text: string, action: string }} question
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text, action }) {
  const dialog = byId("confirm", HTMLDialogElement);
  const yes = byId("confirm-yes", HTMLButtonElement);
  byId("confirm-title", HTMLElement).textContent = title;
  byId("confirm-text", HTMLElement).textContent = text;
  yes.textContent = action;
  yes.onclick = () => dialog.close("yes");
  byId("confirm-no", HTMLButtonElement).onclick = () => dialog.close("no");
  // A browser tells of a dialog's end some time after it: who is quick has asked again by then.
  answer(dialog.returnValue === "yes");
  dialog.onclose = () => dialog.open || answer(dialog.returnValue === "yes");
  dialog.returnValue = "no";
  dialog.showModal();
  byId("confirm-no", HTMLButtonElement).focus();
  return new Promise((resolve) => {
    answer = resolve;
  });
}
