/** @import { Event, Info } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { announce } from "./announce.js";
import { createConfigurationPanel } from "./configuration-panel.js";
import { DeadLettersPanel } from "./dead-letters-panel.js";
import { announcementOf } from "./event-text.js";
import { FlowPanel } from "./flow-panel.js";
import { refreshTimes } from "./format.js";
import { createPaymentsPanel } from "./payments-panel.js";
import { Poller } from "./poller.js";
import { createQueuePanel } from "./queue-panel.js";
import { createRatesPanel } from "./rates-panel.js";
import { createRevenuePanel } from "./revenue-panel.js";
import { createRunnersPanel } from "./runners-panel.js";
import { Status } from "./status.js";
import { followTail } from "./tail.js";
import { createTotalsPanel } from "./totals-panel.js";

const SECOND_MS = 1_000;

/**
 * Fills the page and keeps it current through events and polling until `signal` aborts.
 * @param {{ client: Client, signal: AbortSignal, onRefused: (error: unknown) => void }} options
 *   `onRefused` gets the error of every failed call
 */
export async function startDashboard({ client, signal, onRefused }) {
  // The configuration comes first, because amounts need the tokens' decimals.
  const configuration = createConfigurationPanel({ client });
  await configuration.refresh().catch(onRefused);
  if (signal.aborted) return;
  const status = new Status();
  const totals = createTotalsPanel();
  const queue = createQueuePanel();
  const flow = new FlowPanel();
  const payments = createPaymentsPanel({ client });
  const runners = createRunnersPanel({ client });
  const rates = createRatesPanel({ client });
  const revenue = createRevenuePanel({ client, signal, onChange: () => pollers.revenue.soon(0) });
  const deadLetters = new DeadLettersPanel({ client, onChange: () => pollers.totals.soon(0) });

  /** @param {string} question @param {() => Promise<void>} ask @param {number} seconds */
  const poll = (question, ask, seconds) =>
    new Poller({
      async ask() {
        await ask();
        status.answered(question);
      },
      everyMs: seconds * SECOND_MS,
      signal,
      onError(error) {
        status.failed(question, error);
        onRefused(error);
      },
    });

  async function askForTotals() {
    const now = await client.call("GetTotals", {});
    totals.update(now);
    queue.update(now);
  }
  async function askForInfo() {
    const info = await client.call("GetInfo", {});
    status.inform(info);
    configuration.update(info);
  }
  const pollers = {
    totals: poll("totals", askForTotals, 3),
    runners: poll("runners", runners.refresh, 3),
    payments: poll("payments", payments.refresh, 15),
    deadLetters: poll("dead letters", () => deadLetters.refresh(), 15),
    revenue: poll("revenue", revenue.refresh, 20),
  };
  poll("info", askForInfo, 10);
  poll("rates", rates.refresh, 10);
  poll("configuration", configuration.refresh, 60);

  /** @param {Event} event */
  function onEvent(event) {
    flow.add(event);
    pollers.totals.soon();
    if (event.delivered || event.acked) pollers.runners.soon();
    if (event.payment_decided) {
      pollers.revenue.soon();
      pollers.payments.soon();
    }
    if (event.dead_lettered || event.dropped || event.retried) pollers.deadLetters.soon();
    const text = announcementOf(event);
    if (text !== undefined) announce(text);
  }

  const ticker = setInterval(() => {
    if (document.hidden) return;
    refreshTimes();
    flow.tick();
  }, SECOND_MS);
  signal.addEventListener("abort", () => clearInterval(ticker));

  let missed = 0;
  await followTail({
    client,
    signal,
    onOpen: (isOpen) => status.streaming(isOpen),
    onError: onRefused,
    onMessage(message) {
      if (message.event) onEvent(message.event);
      missed += Number(message.missed);
      if (missed > 0) flow.miss(missed);
    },
  });
}
