import type { Command } from "commander";
import { findJob, type Names, readNames } from "../../../commands/names.ts";
import {
  type AdoptPaymentResponse,
  type ClosePaymentResponse,
  callOperator,
  filterRequest,
  type GetPaymentResponse,
  type GetTotalsResponse,
  type OperatorClient,
  type Payment,
  PaymentVerdict,
  paymentStateText,
  type RefusedPayment,
  timeText,
} from "../../../commands/operator-client.ts";
import {
  addOperatorCommand,
  argumentOnly,
  byOption,
  callIdArgument,
  commandGroup,
  type FilterOptions,
  filterOptions,
  jobOption,
  jsonOption,
  listOptions,
  noteOption,
  option,
  stateOption,
} from "../../../commands/options.ts";
import {
  type Columns,
  fields,
  type ListOptions,
  type PrintOptions,
  printAnswer,
  printEntries,
  printList,
  printNamed,
  shortText,
} from "../../../commands/output.ts";
import { statesText, totalsTexts } from "../../../commands/part-text.ts";
import { ERROR_KINDS } from "../../../core/errors.ts";
import { defined } from "../../../core/objects.ts";
import { closingText, type PaymentState } from "../../../core/payment.ts";
import { PAYMENT_STATES } from "../../../operator/messages.ts";
import { addMissingCommand } from "./missing-payments.ts";

export function addTo(program: Command): void {
  const payments = commandGroup(program, {
    name: "payments",
    description: "Show the payment journal of a running jobgate; decide what it cannot.",
    example: "payments list --state unresolved",
  });

  addOperatorCommand(payments, {
    name: "list",
    description: "List payments, newest first.",
    example: "payments list --state settled --since 24h --job 1/0",
    takes: [...filterOptions(), stateOption("payments", PAYMENT_STATES)],
  }).action(list);

  addOperatorCommand(payments, {
    name: "show",
    description: "Show one payment.",
    example: "payments show 12",
    takes: [callIdArgument(), jsonOption()],
  }).action(show);

  addOperatorCommand(payments, {
    name: "close",
    description: "Decide a payment that jobgate cannot decide; exit 1 if it is decided, or may still be.",
    example: 'payments close 12 --as paid --note "transfer in block 9184"',
    takes: [
      callIdArgument(),
      argumentOnly("--as <verdict>", "paid: its job is queued; not-paid: it fails")
        .choices(["paid", "not-paid"])
        .makeOptionMandatory(),
      noteOption(),
      byOption(),
      jsonOption(),
    ],
  }).action(close);

  addOperatorCommand(payments, {
    name: "refused",
    description:
      "List the last week's requests whose payments bought nothing, newest first, with the reasons.",
    example: "payments refused --job 1/0 --code payment_invalid",
    takes: [
      jobOption(),
      option("--payer <address>", "only payments that name this address, verified or not"),
      option("--code <code>", "only this error code").choices(Object.keys(ERROR_KINDS)),
      option("--request-id <id>", "only this request: X-Request-Id of its answer"),
      ...listOptions(),
    ],
  }).action(refused);
  addOperatorCommand(payments, {
    name: "refusals",
    description:
      "Count the refused payments of the last week by job, code and reason, the most frequent first.",
    example: "payments refusals",
    takes: [jsonOption()],
  }).action(refusals);

  addMissingCommand(payments);
  addOperatorCommand(payments, {
    name: "adopt",
    description: "Adopt payments that a restored copy of the store lacks; exit 1 if there is none to adopt.",
    example: "payments adopt --transaction 0x…",
    takes: [
      argumentOnly(
        "--transaction <hash>",
        "transaction that made them, as payments missing prints it",
      ).makeOptionMandatory(),
      option("--note <text>", "reason, for the journal").default("the store lacked it"),
      byOption(),
      jsonOption(),
    ],
  }).action(adopt);

  addOperatorCommand(payments, {
    name: "totals",
    description: "Count payments and JobCalls by state, and check that the journal balances.",
    example: "payments totals",
    takes: [jsonOption()],
  }).action(totals);
}

function list(options: ListOptions & FilterOptions & { readonly state?: PaymentState }): Promise<void> {
  const filter = defined({
    ...filterRequest(options),
    state: options.state && PAYMENT_STATES[options.state],
  });
  return printList(options, {
    readPage: async (client, page) =>
      client.listPayments({ ...page, ...filter, ...(await paidJobRequest(client, options.job)) }),
    items: (page) => page.payments,
    columns: ({ job, network }) => ({
      ...COLUMNS,
      JOB: (one) => job(paidJob(one)),
      NETWORK: (one) => network(one.network),
    }),
  });
}

/** Fields of a request that select what `--job` names. */
async function paidJobRequest(client: OperatorClient, job: FilterOptions["job"]) {
  const found = await findJob(client, job);
  return found && defined({ serviceId: found.serviceId, jobIndex: Number(found.jobId) });
}

interface RefusedOptions extends ListOptions, Pick<FilterOptions, "job" | "payer"> {
  readonly code?: string;
  readonly requestId?: string;
}

function refused({ job, payer, code, requestId, ...options }: RefusedOptions): Promise<void> {
  const filter = defined({ payer, code, requestId });
  return printList(options, {
    readPage: async (client, page) =>
      client.listRefusedPayments({ ...page, ...filter, ...(await paidJobRequest(client, job)) }),
    items: (page) => page.refusedPayments,
    columns: (names) => ({ ...REFUSED_COLUMNS, JOB: (one) => names.job(paidJob(one)) }),
  });
}

const REFUSED_COLUMNS: Columns<RefusedPayment> = {
  "REFUSED AT": ({ refusedAt }) => timeText(refusedAt),
  REQUEST: ({ requestId }) => requestId,
  JOB: ({ serviceId, jobIndex }) => `${serviceId}/${jobIndex}`,
  CODE: ({ code }) => code,
  PAYER: ({ payer }) => payer || "-",
  REASON: ({ reason, message }) => shortText(reason || message),
};

async function refusals(options: PrintOptions): Promise<void> {
  const [{ counts, total }, names] = await callOperator(options, (client) =>
    Promise.all([client.countRefusedPayments({}), readNames(client)]),
  );
  printEntries(options, counts, {
    COUNT: ({ count }) => String(count),
    JOB: (one) => names.job(paidJob(one)),
    CODE: ({ code }) => code,
    NEWEST: ({ newestRefusedAt }) => timeText(newestRefusedAt),
    REASON: ({ reason }) => reason || "-",
  });
  const left = counts.reduce((rest, { count }) => rest - count, total);
  if (left > 0n) console.error(`${left} more for other reasons.`);
}

function paidJob({ serviceId, jobIndex }: Pick<Payment, "serviceId" | "jobIndex">) {
  return { origin: "x402", serviceId, jobId: jobIndex };
}

const COLUMNS: Columns<Payment> = {
  ID: ({ callId }) => String(callId),
  STATE: statesText,
  AMOUNT: ({ amountText }) => amountText,
  JOB: ({ serviceId, jobIndex }) => `${serviceId}/${jobIndex}`,
  PAYER: ({ payer }) => payer,
  NETWORK: ({ network }) => network,
  CREATED: ({ createdAt }) => timeText(createdAt),
  REASON: (payment) =>
    shortText([closedText(payment), payment.reason].filter((text) => text !== "").join("; ")),
};

/** Empty unless an operator decided the payment. */
function closedText({ closed }: Payment): string {
  if (closed === undefined) return "";
  return closingText({ ...closed, as: closed.verdict === PaymentVerdict.PAID ? "paid" : "not_paid" });
}

const show = (callId: bigint, options: PrintOptions): Promise<void> =>
  printNamed(
    options,
    (client) => client.getPayment({ callId }),
    details,
    ({ payment }) => payment?.network,
  );

function details({ payment, ...more }: GetPaymentResponse, names: Names): string {
  if (payment === undefined) throw new Error("The operator API returned no payment");
  return fields([
    ["call ID", String(payment.callId)],
    ["state", statesText(payment)],
    ["reason", payment.reason],
    ["closed", payment.closed === undefined ? "" : `${timeText(payment.closed.at)} ${closedText(payment)}`],
    ["job", names.job(paidJob(payment))],
    ["amount", payment.amountText],
    ["price", more.price || `${more.priceWei} wei`],
    ["network", names.networkInFull(payment.network)],
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

interface AdoptOptions extends PrintOptions {
  readonly transaction: string;
  readonly note: string;
  readonly by: string;
}

const adopt = ({ transaction, note, by, ...options }: AdoptOptions): Promise<void> =>
  printAnswer(options, (client) => client.adoptPayment({ transaction, note, by }), adoptedText);

function adoptedText({ payments, journalled }: AdoptPaymentResponse): string {
  const known = journalled.map((callId) => `Payment ${callId} is in the journal: it is not adopted.`);
  const adopted = payments.map(({ payer, amountText, jobs, adoptedBefore }) => {
    const names = jobs.map(({ serviceId, jobIndex }) => `${serviceId}/${jobIndex}`).join(", ");
    const bought =
      jobs.length === 0
        ? "no job has that price now, so it buys nothing until one has"
        : `its buyer gets one run of ${names} by sending the same payment again`;
    return `${amountText} of ${payer} ${adoptedBefore ? "was adopted before" : "adopted"}: ${bought}.`;
  });
  return [...adopted, ...known].join("\n");
}

const totals = (options: PrintOptions): Promise<void> =>
  printAnswer(options, (client) => client.getTotals({}), totalsText);

const PAYMENT_COUNTS = [
  "intent",
  "settled",
  "failed",
  "unresolved",
  "authorized",
  "settling",
  "released",
] as const;
const USE_COUNTS = ["running", "settling", "settled", "released", "failed", "unresolved"] as const;

function totalsText(totals: GetTotalsResponse): string {
  const { payments, deferred, calls, paidCalls, kept, uncharged, balanced } = totals;
  const sold = (payments?.settled ?? 0n) - (deferred?.settled ?? 0n) + (deferred?.authorized ?? 0n);
  const sum = counts(paidCalls, ["ready", "leased", "done", "dead"], " + ");
  return fields([
    ["payments", counts(payments, PAYMENT_COUNTS, ", ")],
    ["charged after the job", counts(deferred, USE_COUNTS, ", ")],
    ["unfinished JobCalls", counts(calls, ["held", "ready", "leased", "dead"], ", ")],
    ["journal", `sold ${sold} ${balanced ? "=" : "≠"} ${sum}`],
    [
      "money for dead ones",
      [`kept ${kept}`, `not charged ${uncharged}`, ...totalsTexts(totals, "money")].join(", "),
    ],
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
