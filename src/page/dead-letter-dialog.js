/** @import { Client } from "./connect.js" */
import { byId, h } from "./dom.js";

/** Of a body, in characters. */
const SHOWN = 10_000;

/** Whose answer is awaited: a late one for a call that was shown before is not this one's. */
let shownCall = "";

/**
 * One dead letter with its metadata and body, which come from outside and are shown as text, whatever they are.
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
    return text.length > SHOWN ? `${text.slice(0, SHOWN)}… (${bytes.length} bytes)` : text;
  } catch {
    return `${bytes.length} bytes that are no text`;
  }
}
