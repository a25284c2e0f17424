/** @import { Job } from "./data.js" */
/** @import { Call } from "./purchase.js" */
import { byId, h } from "../../../page/shared/dom.js";
import { durationText } from "../../../page/shared/format.js";
import { startTheme } from "../../../page/shared/theme.js";
import { loadChains } from "./chains.js";
import { Checkout } from "./checkout.js";
import { InputForm } from "./input-form.js";
import { priceText, titleOf } from "./money.js";
import { Outcome } from "./outcome.js";
import { Purchase, ROOT } from "./purchase.js";
import { RequestForm } from "./request-form.js";
import { copyButton } from "./result.js";

/** @type {Job} */
const job = JSON.parse(byId("data", HTMLScriptElement).text);

/** The request of a job at a route of its own. */
const request = job.route && `GET ${location.pathname}${location.search}`;

function showJob() {
  const {
    description,
    tags = [],
    input,
    output,
    max_run_secs: maxRunSecs,
    price_range: range,
    conditions,
  } = job;
  byId("price", HTMLElement).textContent = priceText(job);
  const tagList = byId("tags", HTMLElement);
  tagList.hidden = tags.length === 0;
  tagList.replaceChildren(...tags.map((tag) => h("li", { class: "pill" }, tag)));
  const about = byId("description", HTMLElement);
  about.hidden = description === undefined;
  about.textContent = description ?? "";
  /** @type {[string, string | undefined][]} */
  const facts = [
    ["Takes", input?.content_type],
    ["Returns", output?.content_type],
    ["Done within", maxRunSecs === undefined ? undefined : durationText(`${maxRunSecs}s`)],
    ["Price", range?.rule],
    ["Conditions", conditions?.join(" ")],
  ];
  byId("facts", HTMLElement).replaceChildren(
    ...facts.flatMap(([name, value]) =>
      value === undefined ? [] : [h("div", {}, h("dt", {}, name), h("dd", {}, value))],
    ),
  );
}

function showPrograms() {
  const { x402_endpoint: url } = job;
  const link = (/** @type {string} */ path) => h("a", { href: new URL(path, ROOT).href }, path);
  byId("programs", HTMLElement).replaceChildren(
    h(
      "p",
      {},
      request === undefined
        ? "POST the input to this address with any x402 client: it is answered with the offers, pays one, and gets the call."
        : "Send the request with any x402 client: it is answered with the offers, pays one, and gets the answer.",
    ),
    h("p", { class: "copy" }, h("code", { class: "mono" }, url), copyButton(url, "Copy", "Copy the address")),
    h(
      "p",
      { class: "muted small" },
      "More for programs: ",
      link("openapi.json"),
      ", ",
      link("llms.txt"),
      ".",
    ),
  );
}

startTheme();
showJob();
showPrograms();
const form = new InputForm(job.input, request);
if (job.route !== undefined) new RequestForm({ ...job, route: job.route });
const purchase = new Purchase(request === undefined ? "POST" : "GET");
const outcome = new Outcome({
  onAgain() {
    purchase.end();
    checkout.setDone(false);
    byId("pay", HTMLButtonElement).focus();
  },
});
await loadChains([job]);
const checkout = new Checkout({ job, purchase, form, onBought: showCall });

function showCall() {
  const call = /** @type {Call} */ (purchase.kept?.call);
  checkout.setDone(true);
  void outcome.follow(call, { title: titleOf(job), url: job.x402_endpoint, paid: purchase.kept?.paid });
}

if (purchase.body !== undefined) form.restore(purchase.body);
if (purchase.kept?.call !== undefined) showCall();
else checkout.resume();
