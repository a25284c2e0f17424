import type { Command } from "commander";
import { type OperatorClient, timeText } from "../../commands/operator-client.ts";
import {
  addCommand,
  addOperatorCommand,
  byOption,
  callIdArgument,
  jsonOption,
  listOptions,
  noteOption,
  stateOption,
} from "../../commands/options.ts";
import {
  type Columns,
  type ListOptions,
  type PrintOptions,
  printAnswer,
  printList,
  shortText,
} from "../../commands/output.ts";
import { decimalText } from "../../core/amounts.ts";
import { defined } from "../../core/objects.ts";
import { oneSpelling } from "../../core/payment.ts";
import { REFUND_STATES, type Refund, refundStateText } from "./operator-states.ts";
import type { RefundState } from "./store/ledger.ts";

export function addTo(program: Command): void {
  const refunds = addCommand(program, {
    name: "refunds",
    description: "List the refunds of failed jobs of a running jobgate; approve or decline them.",
    example: "refunds list --state owed",
  });

  addOperatorCommand(refunds, {
    name: "list",
    description: "List refunds, newest first.",
    example: "refunds list --state refund_failed",
    takes: [...listOptions(), stateOption("refunds", REFUND_STATES)],
  }).action(list);

  addDecision(refunds, {
    name: "approve",
    description: "Send a refund that waits for you, failed, or was declined; exit 1 if it is sent already.",
    decide: (client, request) => client.approveRefund(request),
  });
  addDecision(refunds, {
    name: "decline",
    description: "Keep the money for a failed job; exit 1 if it is being sent, or was.",
    decide: (client, request) => client.declineRefund(request),
  });
}

function list(options: ListOptions & { readonly state?: RefundState }): Promise<void> {
  const filter = defined({ state: options.state && REFUND_STATES[options.state] });
  return printList(options, {
    readPage: (client, page) => client.listRefunds({ ...page, ...filter }),
    items: (page) => page.refunds,
    columns: ({ network }) => ({ ...COLUMNS, NETWORK: (refund) => network(refund.network) }),
  });
}

const COLUMNS: Columns<Refund> = {
  ID: ({ callId }) => String(callId),
  STATE: (refund) => (refund.asks ? `${refundStateText(refund.state)}, asks you` : stateText(refund)),
  AMOUNT: ({ amountText }) => amountText,
  NETWORK: ({ network }) => network,
  PAYER: ({ payer }) => payer,
  "OWED SINCE": ({ createdAt }) => timeText(createdAt),
  TRANSACTION: ({ transaction }) => transaction || "-",
  REASON: (refund) =>
    shortText([decisionText(refund), refund.reason].filter((text) => text !== "").join("; ")),
};

/** State of a refund. A refund that the operator has approved stays owed until jobgate sends it. */
function stateText({ state, decision }: Refund): string {
  const isApproved = state === REFUND_STATES.owed && decision?.approved === true;
  return `${refundStateText(state)}${isApproved ? ", approved" : ""}`;
}

/** Empty unless an operator decided. */
function decisionText({ decision }: Refund): string {
  if (decision === undefined) return "";
  return `${decision.approved ? "approved" : "declined"} by ${decision.by}: ${decision.note}`;
}

interface DecisionOptions extends PrintOptions {
  readonly note: string;
  readonly by: string;
}

function addDecision(
  refunds: Command,
  decision: {
    readonly name: string;
    readonly description: string;
    readonly decide: (
      client: OperatorClient,
      request: { readonly callId: bigint; readonly by: string; readonly note: string },
    ) => ReturnType<OperatorClient["approveRefund"]> | ReturnType<OperatorClient["declineRefund"]>;
  },
): void {
  const { decide, ...about } = decision;
  addOperatorCommand(refunds, {
    ...about,
    example: `refunds ${about.name} 12 --note "as agreed by mail"`,
    takes: [callIdArgument(), noteOption(), byOption(), jsonOption()],
  }).action(async (callId: bigint, { note, by, ...options }: DecisionOptions) => {
    let waits = "";
    await printAnswer(
      options,
      async (client) => {
        const answer = await decide(client, { callId, by, note });
        if (answer.refund !== undefined) waits = whyWaiting(answer.refund, await client.listHoldings({}));
        return answer;
      },
      ({ refund }) =>
        `${callId} ${refund === undefined ? "decided" : `${stateText(refund)}, ${refund.amountText}${waits}`}`,
    );
  });
}

/** Says why a refund that is owed is not sent yet, as far as that is known. */
export function whyWaiting(
  {
    state,
    network,
    asset,
    amount,
    reason,
  }: Pick<Refund, "state" | "network" | "asset" | "amount" | "reason">,
  { holdings }: Pick<Awaited<ReturnType<OperatorClient["listHoldings"]>>, "holdings">,
): string {
  if (state !== REFUND_STATES.owed) return "";
  const held = holdings.find(
    (one) =>
      one.pays === "refunds" && one.network === network && oneSpelling(one.asset) === oneSpelling(asset),
  );
  if (held !== undefined && BigInt(held.amount) < BigInt(amount)) {
    const has = `${decimalText(held.amount, held.decimals)} ${held.symbol}`;
    return `: it waits, because account ${held.account} had only ${has} when it was last read`;
  }
  return reason === "" ? ": jobgate sends it now" : `: it waits, because ${reason}`;
}
