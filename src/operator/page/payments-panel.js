/** @import { Payment } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { byId, setText } from "./dom.js";
import { ago, shortHex } from "./format.js";
import { createTable } from "./table.js";
import { amount } from "./tokens.js";

/** Payments are decided within seconds, unless something is wrong. */
const UNDECIDED_TOO_LONG_MS = 5 * 60_000;
const PAGE_SIZE = 200;

/**
 * Payments that jobgate cannot decide, or has been deciding for too long.
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
  return {
    async refresh() {
      const [unresolved, undecided] = await Promise.all(
        ["PAYMENT_STATE_UNRESOLVED", "PAYMENT_STATE_INTENT"].map((state) =>
          client.call("ListPayments", { state, page_size: PAGE_SIZE }),
        ),
      );
      const oldest = Date.now() - UNDECIDED_TOO_LONG_MS;
      const old = (undecided?.payments ?? []).filter(
        ({ created_at = "" }) => Date.parse(created_at) < oldest,
      );
      const shown = [...(unresolved?.payments ?? []), ...old];
      const more = unresolved?.next_page_token || undecided?.next_page_token ? "+" : "";
      setText(count, shown.length === 0 ? "" : `${shown.length}${more}`);
      update(shown);
    },
  };
}
