import { byId } from "./dom.js";

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
  dialog.returnValue = "no";
  dialog.showModal();
  byId("confirm-no", HTMLButtonElement).focus();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}
