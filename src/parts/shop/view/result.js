import { h } from "../../../page/shared/dom.js";

/** Pictures without scripts. SVG is shown as text, because an SVG that is opened by itself is a document of this origin. */
const PICTURE = /^image\/(png|jpeg|gif|webp|avif|bmp)$/;
const JSON_TYPE = /^application\/(?:.*\+)?json$/;
const TEXT_TYPE = /^text\/|^application\/(?:.*\+)?(?:xml|yaml|toml|javascript)$|^image\/svg\+xml$/;
/** Most characters that are shown. The file has all of them. */
const MAX_SHOWN = 200_000;
/** Policy of the frame, in addition to the page's policy. A frame loads nothing, not even pictures of this origin. */
const FRAME_POLICY = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:">`;
const ENDINGS = /** @type {Record<string, string>} */ ({
  "application/json": "json",
  "application/pdf": "pdf",
  "application/zip": "zip",
  "text/plain": "txt",
  "text/csv": "csv",
  "text/html": "html",
  "text/markdown": "md",
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/svg+xml": "svg",
});

/**
 * Shows the result of a job as text, as a picture, as HTML in a sandbox, or only as a file to save, and never as a document of this origin.
 * @param {Blob} result
 * @param {string} contentType
 * @param {number} callId
 * @returns {Promise<Element[]>}
 */
export async function resultView(result, contentType, callId) {
  const type = (contentType.split(";")[0] ?? "").trim().toLowerCase();
  const size = sizeText(result.size);
  if (result.size === 0) return [h("p", { class: "muted" }, "The job is done, and returned nothing.")];
  const save = saveLink(
    result,
    `result-${callId}.${ENDINGS[type] ?? "bin"}`,
    `Save (${type || "unknown type"}, ${size})`,
  );
  if (PICTURE.test(type)) {
    const url = URL.createObjectURL(new Blob([result], { type }));
    return [h("img", { class: "picture", src: url, alt: "The job's result" }), h("p", {}, save)];
  }
  if (!JSON_TYPE.test(type) && !TEXT_TYPE.test(type)) return [h("p", {}, save)];
  const text = await result.text();
  if (type === "text/html" && text.length <= MAX_SHOWN) {
    // A sandbox without permissions has an origin of its own, and can neither run scripts, send forms, open windows nor navigate this page.
    const frame = h("iframe", {
      class: "frame",
      sandbox: "",
      srcdoc: `${FRAME_POLICY}${text}`,
      title: "Result",
    });
    return [frame, h("p", { class: "actions" }, copyButton(text, "Copy"), save)];
  }
  const readable = JSON_TYPE.test(type) ? prettyJson(text) : text;
  const isLong = readable.length > MAX_SHOWN;
  return [
    h("pre", { tabindex: 0, "aria-label": "Result" }, isLong ? `${readable.slice(0, MAX_SHOWN)}…` : readable),
    h("p", { class: "actions" }, copyButton(text, "Copy"), save),
  ];
}

/**
 * Link that saves a file. The type of the file is neutral, because a page that is opened in a tab would have this
 * origin.
 * @param {BlobPart} content
 * @param {string} name
 * @param {string} label
 */
export function saveLink(content, name, label) {
  const url = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  return h("a", { class: "button", href: url, download: name }, label);
}

/** @param {string} text @param {string} label @param {string} [name] for screen readers, where the label is not enough */
export function copyButton(text, label, name) {
  const button = h("button", { type: "button", "aria-label": name }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy it by hand";
    }
  });
  return button;
}

/** @param {string} text */
function prettyJson(text) {
  try {
    // Numbers with more digits than JavaScript keeps would change.
    return /\d{16}/.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** @param {number} bytes */
function sizeText(bytes) {
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
