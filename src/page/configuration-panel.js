/** @import { Configuration, Info } from "./api.js" */
/** @import { Child } from "./dom.js" */
/** @import { Client } from "./connect.js" */
import { byId, h } from "./dom.js";
import { countText, durationText, shortHex } from "./format.js";
import { createTable } from "./table.js";
import { learnTokens } from "./tokens.js";

/** Listeners, and the configuration without secrets. @param {{ client: Client }} options */
export function createConfigurationPanel({ client }) {
  const place = byId("configuration", HTMLElement);
  const listeners = byId("listeners", HTMLElement);
  listeners.replaceChildren();
  const updateListeners = createTable(listeners, {
    caption: "Listeners",
    empty: "Nothing listens.",
    keyOf: (/** @type {Info["listeners"][number]} */ { name }) => name,
    columns: [
      { label: "Listener", cell: ({ name }) => name },
      { label: "Address", class: "mono wide", cell: ({ address }) => address },
    ],
  });
  let shown = "";
  return {
    /** @param {Info} info */
    update: (info) => updateListeners(info.listeners),
    async refresh() {
      const { configuration } = await client.call("GetConfiguration", {});
      if (configuration === undefined || JSON.stringify(configuration) === shown) return;
      shown = JSON.stringify(configuration);
      learnTokens(configuration);
      place.replaceChildren(...groupsOf(configuration));
    },
  };
}

/** @param {Configuration} configuration */
function groupsOf({ service_id, store, runner, operator, x402, webhooks, pricing_engine }) {
  return [
    group("Service and store", [
      ["Service id", service_id],
      ["Store", mono(store?.url ?? "")],
      ["Most unfinished JobCalls", countText(store?.max_pending ?? "0")],
      ["Operator's token", operator?.has_token ? "set" : "none"],
    ]),
    group("Runner listener", [
      ["Token", runner?.has_token ? "set" : "none"],
      ["TLS", runner?.has_tls ? (runner.has_client_ca ? "with client certificates" : "yes") : "no"],
      ["Lease", durationText(runner?.lease ?? "0s")],
      ["Most attempts", String(runner?.max_attempts)],
      [
        "Retry delay",
        `${durationText(runner?.retry_base ?? "0s")} to ${durationText(runner?.retry_max ?? "0s")}`,
      ],
      ["Drain", durationText(runner?.drain ?? "0s")],
    ]),
    ...(x402 ? x402Groups(x402) : []),
    ...(webhooks ? [webhookGroup(webhooks)] : []),
    ...(pricing_engine
      ? [
          group("Pricing engine", [
            ["URL", mono(pricing_engine.url)],
            ["Proof of work", `${pricing_engine.proof_of_work_bits} bits`],
            [
              "Quotes",
              pricing_engine.checks_quotes ? "checked, and can be paid" : "not checked, cannot be paid",
            ],
          ]),
        ]
      : []),
  ];
}

/** @param {NonNullable<Configuration["x402"]>} x402 */
function x402Groups(x402) {
  return [
    group("Paid jobs", [
      ["Public URL", mono(x402.public_url)],
      ["Facilitator", mono(x402.facilitator_url)],
      ["Facilitator's time limit", durationText(x402.facilitator_timeout ?? "0s")],
      ["Offers last", durationText(x402.quote_ttl ?? "0s")],
      ["Largest body", `${countText(x402.max_body_bytes)} bytes`],
      ["Jobs without a policy", x402.default_invocation_mode],
      ["Prices from", x402.price_source],
      ["Most undecided payments", countText(String(x402.max_undecided))],
      ["Most undecided payments of one payer", countText(String(x402.max_open_per_payer))],
      ...x402.job_prices.map(
        ({ service_id, job_index, price_wei }) =>
          /** @type {Fact} */ ([`Price of ${service_id}/${job_index}`, `${countText(price_wei)} wei`]),
      ),
      ...x402.job_policies.map(
        ({ service_id, job_index, invocation_mode, auth_mode }) =>
          /** @type {Fact} */ ([
            `Policy of ${service_id}/${job_index}`,
            [invocation_mode, auth_mode].filter(Boolean).join(", "),
          ]),
      ),
    ]),
    ...x402.accepted_tokens.map((token) =>
      group(`${token.symbol} on ${token.network}`, [
        ["Asset", shortHex(token.asset)],
        ["Paid to", shortHex(token.pay_to)],
        ["Decimals", String(token.decimals)],
        ["Markup", `${token.markup_bps / 100} %`],
        ["Rate", [token.rate_source, token.rate_url].filter(Boolean).join(", ")],
        ["Moves by", token.transfer_method],
        ["RPC", token.rpc_url === "" ? "none: the facilitator's word counts" : mono(token.rpc_url)],
        ["Confirmations", String(token.confirmations)],
      ]),
    ),
  ];
}

/** @param {NonNullable<Configuration["webhooks"]>} webhooks */
function webhookGroup({ max_body_bytes, endpoints }) {
  return group("Webhooks", [
    ["Largest body", `${countText(max_body_bytes)} bytes`],
    ...endpoints.map(
      ({ path, job_id, auth, name }) =>
        /** @type {Fact} */ ([mono(path), `job ${job_id}, ${auth}${name === "" ? "" : `, ${name}`}`]),
    ),
  ]);
}

/** @typedef {[name: Child, value: Child]} Fact */

/** @param {string} title @param {readonly Fact[]} facts */
function group(title, facts) {
  return h(
    "section",
    { class: "group" },
    h("h3", {}, title),
    h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}

/** @param {string} text */
function mono(text) {
  return h("span", { class: "mono" }, text);
}
