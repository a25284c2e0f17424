/** @import { Job, Option } from "./data.js" */
import { byId, h, setText } from "../../../page/shared/dom.js";
import { plural } from "../../../page/shared/format.js";
import { startTheme } from "../../../page/shared/theme.js";
import { loadChains, networkName } from "./chains.js";
import { priceText, titleOf, tokenAmount } from "./money.js";

/** Number of jobs from which on a filter helps. */
const MANY = 6;

/** @type {{ jobs: readonly Job[] }} */
const { jobs } = JSON.parse(byId("data", HTMLScriptElement).text);

/** Returns a job's address relative to this page, because the gateway may be behind a path prefix of a larger site. @param {Job} job */
function pathOf({ x402_endpoint: url }) {
  return url.replace(/^.*\/(?=x402\/jobs\/\d+\/\d+$)/, "");
}

/** @param {Job} job */
function wordsOf(job) {
  const { name = "", description = "", tags = [] } = job;
  return [titleOf(job), name, description, ...tags].join("\n").toLowerCase();
}

/** Returns the networks and tokens that pay for a job. @param {Job} job */
function tokensText({ price, settlement_options: options }) {
  const [first] = options;
  if (first === undefined) return "cannot be paid now";
  // The options list a token once for each transfer method.
  const tokens = options.filter(
    (option, i) => options.findIndex((other) => isSameTerms(option, other)) === i,
  );
  const texts = tokens.map((option, i) => {
    const network = `on ${networkName(option.network)}`;
    if (price !== undefined) return `${option.symbol} ${network}`;
    // The card shows the first option as the price.
    return i === 0 ? network : `${tokenAmount(option, option.amount)} ${network}`;
  });
  const more = texts.length > 2 ? [`${texts.length - 2} more`] : [];
  return [...texts.slice(0, 2), ...more].join(", ");
}

/** @param {Option} one @param {Option} other */
function isSameTerms(one, other) {
  return one.network === other.network && one.symbol === other.symbol && one.amount === other.amount;
}

/** @param {Job} job */
function card(job) {
  const { description, tags = [], route } = job;
  return h(
    "li",
    { class: "panel card" },
    h("h2", {}, route === undefined ? h("a", { href: pathOf(job) }, titleOf(job)) : titleOf(job)),
    // The job's page has no link, because its address has parameters that only the buyer knows.
    route !== undefined && h("p", { class: "card-text" }, h("code", {}, route)),
    description !== undefined && h("p", { class: "card-text" }, description),
    tags.length > 0 &&
      h("ul", { class: "tags", "aria-label": "Tags" }, ...tags.map((tag) => h("li", { class: "pill" }, tag))),
    h(
      "p",
      { class: "card-price" },
      h("strong", {}, priceText(job)),
      " ",
      h("span", { class: "muted small" }, tokensText(job)),
    ),
  );
}

function start() {
  const cards = jobs.map((job) => ({ words: wordsOf(job), element: card(job) }));
  const count = byId("count", HTMLElement);
  const empty = byId("empty", HTMLElement);
  const filter = byId("filter", HTMLInputElement);
  byId("jobs", HTMLElement).replaceChildren(...cards.map(({ element }) => element));
  byId("filter-box", HTMLElement).hidden = jobs.length < MANY;

  const show = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { words, element } of cards) element.hidden = !wanted.every((word) => words.includes(word));
    const shown = cards.filter(({ element }) => !element.hidden).length;
    setText(
      count,
      jobs.length < MANY
        ? ""
        : shown === jobs.length
          ? plural(shown, "job")
          : `${shown} of ${plural(jobs.length, "job")}`,
    );
    empty.hidden = shown > 0;
    setText(empty, jobs.length === 0 ? "Nothing is for sale here yet." : "No job matches. Try fewer words.");
  };
  filter.addEventListener("input", show);
  show();
}

startTheme();
await loadChains(jobs);
start();
