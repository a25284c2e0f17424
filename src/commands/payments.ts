import { userInfo } from "node:os";
import { type Command, Option } from "commander";
import { closingText, type PaymentState } from "../core/payment.ts";
import { PAYMENT_STATES } from "../operator/messages.ts";
import {
  type ClosePaymentResponse,
  type GetPaymentResponse,
  type GetTotalsResponse,
  type Payment,
  PaymentVerdict,
  paymentStateText,
  timeText,
} from "./operator-client.ts";
import { addOperatorOptions, callIdArgument, jsonOption, limitOption } from "./options.ts";
import { fields, type ListOptions, type PrintOptions, printAnswer, printList, shortText } from "./output.ts";

export function addPaymentsCommand(program: Command): void {
  const payments = program
    .command("payments")
    .description("Show the payment journal of a running jobgate; decide what it cannot.")
    .addHelpText("after", "\nExample:\n  $ jobgate payments list --state unresolved");

  addOperatorOptions(payments.command("list"))
    .description("List payments, newest first.")
    .addOption(
      new Option("--state <state>", "only payments in this state")
        .choices(Object.keys(PAYMENT_STATES))
        .env("JOBGATE_STATE"),
    )
    .addOption(limitOption())
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ jobgate payments list --state unresolved --limit 10")
    .action(list);

  addOperatorOptions(payments.command("show"))
    .description("Show one payment.")
    .addArgument(callIdArgument())
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ jobgate payments show 12")
    .action(show);

  addOperatorOptions(payments.command("close"))
    .description("Decide a payment that jobgate cannot decide; exit 1 if it is decided, or may still be.")
    .addArgument(callIdArgument())
    .addOption(
      new Option("--as <verdict>", "paid: its job is queued; not-paid: it fails")
        .choices(["paid", "not-paid"])
        .env("JOBGATE_AS")
        .makeOptionMandatory(),
    )
    .addOption(
      new Option("--note <text>", "reason, for the journal").env("JOBGATE_NOTE").makeOptionMandatory(),
    )
    .addOption(
      new Option("--by <name>", "your name, for the journal")
        .env("JOBGATE_BY")
        .default(userInfo().username, "the user's"),
    )
    .addOption(jsonOption())
    .addHelpText(
      "after",
      '\nExample:\n  $ jobgate payments close 12 --as paid --note "transfer in block 9184"',
    )
    .action(close);

  addOperatorOptions(payments.command("totals"))
    .description("Count payments and JobCalls by state, and check that the journal balances.")
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ jobgate payments totals")
    .action(totals);
}

function list(options: ListOptions & { readonly state?: PaymentState }): Promise<void> {
  const state = options.state === undefined ? {} : { state: PAYMENT_STATES[options.state] };
  return printList(options, {
    async readPage(client, page) {
      const { payments, nextPageToken } = await client.listPayments({ ...page, ...state });
      return { items: payments, nextPageToken };
    },
    headings: ["ID", "STATE", "JOB", "AMOUNT", "NETWORK", "PAYER", "CREATED", "REASON"],
    row,
  });
}

function row(payment: Payment): string[] {
  const { callId, state, serviceId, jobIndex, network, payer, createdAt } = payment;
  return [
    String(callId),
    paymentStateText(state),
    `${serviceId}/${jobIndex}`,
    amountText(payment),
    network,
    payer,
    timeText(createdAt),
    shortText([closedText(payment), payment.reason].filter((text) => text !== "").join("; ")),
  ];
}

/** Empty unless an operator decided the payment. */
function closedText({ closed }: Payment): string {
  if (closed === undefined) return "";
  return closingText({ ...closed, as: closed.verdict === PaymentVerdict.PAID ? "paid" : "not_paid" });
}

/** A jobgate of an earlier version sends no text. */
function amountText({ amountText, amount, symbol }: Payment): string {
  return amountText === "" ? `${amount} base units of ${symbol}` : amountText;
}

const show = (callId: bigint, options: PrintOptions): Promise<void> =>
  printAnswer(options, (client) => client.getPayment({ callId }), details);

function details({ payment, ...more }: GetPaymentResponse): string {
  if (payment === undefined) throw new Error("The operator API returned no payment");
  return fields([
    ["call ID", String(payment.callId)],
    ["state", paymentStateText(payment.state)],
    ["reason", payment.reason],
    ["closed", payment.closed === undefined ? "" : `${timeText(payment.closed.at)} ${closedText(payment)}`],
    ["job", `${payment.serviceId}/${payment.jobIndex}`],
    ["amount", amountText(payment)],
    ["price", `${more.priceWei} wei`],
    ["network", payment.network],
    ["asset", payment.asset],
    ["payer", payment.payer],
    ["pay to", payment.payTo],
    ["nonce", payment.nonce],
    ["method", more.transferMethod],
    ["valid before", timeText(payment.validBefore)],
    ["transaction", payment.transaction],
    ["body sha-256", more.bodyHash],
    ["receipt", more.receipt],
    ["x402 version", String(more.x402Version)],
    ["created", timeText(payment.createdAt)],
    ["updated", timeText(payment.updatedAt)],
    ["settlement", more.settlement],
  ]);
}

interface CloseOptions extends PrintOptions {
  readonly as: "paid" | "not-paid";
  readonly note: string;
  readonly by: string;
}

const close = (callId: bigint, { as, note, by, ...options }: CloseOptions): Promise<void> =>
  printAnswer(
    options,
    (client) => {
      const verdict = as === "paid" ? PaymentVerdict.PAID : PaymentVerdict.NOT_PAID;
      return client.closePayment({ callId, verdict, note, by });
    },
    ({ payment }: ClosePaymentResponse) =>
      `${callId} ${payment === undefined ? "closed" : paymentStateText(payment.state)}`,
  );

const totals = (options: PrintOptions): Promise<void> =>
  printAnswer(options, (client) => client.getTotals({}), totalsText);

function totalsText({ payments, calls, paidCalls, balanced }: GetTotalsResponse): string {
  const sum = counts(paidCalls, ["ready", "leased", "done", "dead"], " + ");
  return fields([
    ["payments", counts(payments, ["intent", "settled", "failed", "unresolved"], ", ")],
    ["unfinished JobCalls", counts(calls, ["held", "ready", "leased", "dead"], ", ")],
    ["journal", `settled ${payments?.settled ?? 0n} ${balanced ? "=" : "≠"} ${sum}`],
    ["balanced", balanced ? "yes" : "NO: this is a fault in jobgate; please report it"],
  ]);
}

function counts<Name extends string>(
  of: Readonly<Record<Name, bigint>> | undefined,
  names: readonly Name[],
  separator: string,
): string {
  return names.map((name) => `${name} ${of?.[name] ?? 0n}`).join(separator);
}
