import type { Command } from "commander";
import { timeText } from "../../commands/operator-client.ts";
import { addOperatorCommand, commandGroup, listOptions, option } from "../../commands/options.ts";
import { type ListOptions, printList, programName, shortText } from "../../commands/output.ts";
import { addPartText, type PartText } from "../../commands/part-text.ts";
import { nameIn } from "../../operator/messages.ts";
import { ALERT_KINDS } from "./operator-states.ts";
import { alertLines } from "./portable/alert-lines.ts";
import type { PaymentAlertKind } from "./store/ledger.ts";

/** Lines about alerts in the commands that print totals. */
const TEXT: PartText = {
  problems: ({ paymentAlerts }) =>
    alertLines<number>(paymentAlerts, ALERT_KINDS).map(
      ({ name, count, text }) => `${count} ${text}: ${programName()} payments alerts --kind ${name}`,
    ),
};

/** `jobgate payments alerts` */
export const ALERTS = {
  addTo(program: Command): void {
    const payments = commandGroup(program, {
      name: "payments",
      description: "List payments of a running jobgate that cost money.",
      example: "payments alerts --kind not_paid",
    });
    addOperatorCommand(payments, {
      name: "alerts",
      description:
        "List charges that were lost, and payments that the chain contradicts after they were decided, newest first.",
      example: "payments alerts --kind not_paid",
      takes: [
        ...listOptions(),
        option("--kind <kind>", "only alerts of this kind").choices(Object.keys(ALERT_KINDS)),
      ],
    }).action(list);
  },
};

/** Lines of `jobgate status`. */
export const STATUS = { addTo: () => addPartText(TEXT) };

function list({ kind, ...options }: ListOptions & { readonly kind?: PaymentAlertKind }): Promise<void> {
  const filter = kind === undefined ? {} : { kind: ALERT_KINDS[kind] };
  return printList(options, {
    readPage: (client, page) => client.listPaymentAlerts({ ...page, ...filter }),
    items: (page) => page.alerts,
    columns: (names) => ({
      KIND: ({ kind }) => nameIn(ALERT_KINDS, kind) ?? "-",
      CALL: ({ callId }) => String(callId),
      AT: ({ at }) => timeText(at),
      AMOUNT: ({ amountText }) => amountText,
      JOB: ({ serviceId, jobIndex }) => names.job({ origin: "x402", serviceId, jobId: jobIndex }),
      NETWORK: ({ network }) => names.network(network),
      PAYER: ({ payer }) => payer,
      REASON: ({ reason }) => shortText(reason) || "-",
    }),
  });
}
