/** @import { Client } from "./connect.js" */
import { byId, h } from "./dom.js";

/** Resolves the current question. @type {(sure: boolean) => void} */
let answer = () => {};

/**
 * Asks for confirmation. Escape means no.
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
  // Browsers send `close` later: by then a quick user may have opened the dialog again.
  answer(dialog.returnValue === "yes");
  dialog.onclose = () => dialog.open || answer(dialog.returnValue === "yes");
  dialog.returnValue = "no";
  dialog.showModal();
  byId("confirm-no", HTMLButtonElement).focus();
  return new Promise((resolve) => {
    answer = resolve;
  });
}

/** Characters of a body that are shown. */
const MAX_BODY_CHARS = 10_000;

/** Call in the dialog, to drop late answers for another one. */
let shownCall = "";

/**
 * Shows a dead letter with its metadata and body. Both come from outside and are rendered as text.
 * @param {Client} client
 * @param {string} callId
 */
export async function showDeadLetter(client, callId) {
  const dialog = byId("dead-letter", HTMLDialogElement);
  const content = byId("dead-letter-content", HTMLElement);
  byId("dead-letter-title", HTMLElement).textContent = `Call ${callId}`;
  byId("dead-letter-close", HTMLButtonElement).onclick = () => dialog.close();
  content.replaceChildren(h("p", { class: "muted" }, "…"));
  dialog.showModal();
  shownCall = callId;
  try {
    const { metadata, body } = await client.call("GetDeadLetter", { call_id: callId });
    if (shownCall !== callId) return;
    content.replaceChildren(
      h(
        "dl",
        { class: "facts" },
        ...Object.entries(metadata).flatMap(([name, value]) => [
          h("dt", { class: "mono" }, name),
          h("dd", { class: "mono" }, value),
        ]),
      ),
      h("h3", {}, "Body"),
      h("pre", { tabindex: 0, "aria-label": "Body" }, bodyText(body)),
    );
  } catch (error) {
    if (shownCall !== callId) return;
    content.replaceChildren(
      h("p", { role: "alert" }, error instanceof Error ? error.message : String(error)),
    );
  }
}

/** @param {string} base64 */
function bodyText(base64) {
  if (base64 === "") return "(empty)";
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.length > MAX_BODY_CHARS ? `${text.slice(0, MAX_BODY_CHARS)}… (${bytes.length} bytes)` : text;
  } catch {
    return `${bytes.length} bytes that are no text`;
  }
}
