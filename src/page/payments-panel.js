/** @import { Payment } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { byId, setText } from "./dom.js";
import { ago, countText, shortHex } from "./format.js";
import { createTable } from "./table.js";
import { amount } from "./tokens.js";

/** Age at which an undecided payment needs a look: usually it takes seconds. */
const UNDECIDED_TOO_LONG_MS = 5 * 60_000;
const PAGE_SIZE = 500;
/** Pages to search for old payments: lists are newest first. */
const MAX_PAGES = 10;
const MAX_SHOWN = 200;

/**
 * Payments that are unresolved, or undecided for too long.
 * @param {{ client: Client }} options
 */
export function createPaymentsPanel({ client }) {
  const place = byId("payments", HTMLElement);
  const count = byId("payments-count", HTMLElement);
  place.replaceChildren();
  const update = createTable(place, {
    caption: "Payments that need a look",
    empty: "No payment needs a look.",
    keyOf: (/** @type {Payment} */ { call_id }) => call_id,
    columns: [
      { label: "Call", class: "mono", cell: ({ call_id }) => `#${call_id}` },
      { label: "Amount", cell: (payment) => amount(payment, BigInt(payment.amount)) },
      { label: "Payer", cell: ({ payer }) => shortHex(payer) },
      { label: "Nonce", cell: ({ nonce }) => shortHex(nonce) },
      {
        label: "Why",
        class: "wide",
        cell: ({ state, reason }) =>
          state === "PAYMENT_STATE_UNRESOLVED" ? `unresolved: ${reason}` : "not decided yet",
      },
      { label: "Since", class: "nowrap", cell: ({ created_at }) => ago(created_at) },
    ],
  });

  /** @param {string} state @param {number} maxPages */
  async function list(state, maxPages) {
    /** @type {Payment[]} */
    const found = [];
    let page_token = "";
    for (let page = 0; page < maxPages; page++) {
      const answer = await client.call("ListPayments", { state, page_size: PAGE_SIZE, page_token });
      found.push(...answer.payments);
      page_token = answer.next_page_token;
      if (page_token === "") break;
    }
    return { found, isAll: page_token === "" };
  }

  return {
    async refresh() {
      const [unresolved, undecided] = await Promise.all([
        list("PAYMENT_STATE_UNRESOLVED", 1),
        list("PAYMENT_STATE_INTENT", MAX_PAGES),
      ]);
      const latest = Date.now() - UNDECIDED_TOO_LONG_MS;
      // A payment may become unresolved between the two requests.
      const known = new Set(unresolved.found.map(({ call_id }) => call_id));
      const old = undecided.found.filter(
        ({ call_id, created_at = "" }) => Date.parse(created_at) < latest && !known.has(call_id),
      );
      // Oldest first, because the table is cut.
      const found = [...unresolved.found, ...old.reverse()];
      const isAll = unresolved.isAll && undecided.isAll;
      setText(count, found.length === 0 && isAll ? "" : `${countText(found.length)}${isAll ? "" : "+"}`);
      update(
        found.slice(0, MAX_SHOWN),
        isAll ? undefined : "There are too many undecided payments to look for those that are old.",
      );
    },
  };
}
