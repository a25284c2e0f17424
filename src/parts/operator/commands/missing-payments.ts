import type { Command } from "commander";
import { loadMethods, Refusal, readConfig } from "../../../commands/input.ts";
import { readNames } from "../../../commands/names.ts";
import {
  callOperator,
  type OperatorClient,
  type Payment,
  paymentStateText,
} from "../../../commands/operator-client.ts";
import { addOperatorCommand, jsonOption, sinceOption } from "../../../commands/options.ts";
import { type Columns, MAX_PAGE_SIZE, type PrintOptions, printTable } from "../../../commands/output.ts";
import type { AcceptedToken } from "../../../config/config.ts";
import { amountText } from "../../../core/amounts.ts";
import { oneSpelling } from "../../../core/payment.ts";
import type { ReceivedTransfer } from "../../../x402/settlement/chain-history.ts";

export function addMissingCommand(payments: Command): void {
  addOperatorCommand(payments, {
    name: "missing",
    description: "List transfers to pay_to on the chain that no payment in the journal made.",
    example: "payments missing --since 2026-01-31T10:00Z",
    takes: [
      sinceOption("time of the copy that was restored").makeOptionMandatory(),
      jsonOption("print JSON lines"),
    ],
  }).action(missing);
}

/** A transfer that no payment in the journal made. */
interface MissingPayment extends ReceivedTransfer {
  /** Call IDs of payments that may have made the transfer, because their transaction is not known. */
  readonly candidates: readonly bigint[];
}

async function missing({ since, ...options }: PrintOptions & { readonly since: number }): Promise<void> {
  const { config } = await readConfig(options);
  const transfers = await readTransfers(config.x402?.acceptedTokens ?? [], since);
  const byPayer = new Map<string, ReceivedTransfer[]>();
  for (const transfer of transfers)
    byPayer.set(transfer.from, [...(byPayer.get(transfer.from) ?? []), transfer]);
  const found: MissingPayment[] = [];
  const names = await callOperator(options, async (client) => {
    for (const [payer, own] of byPayer) found.push(...(await withoutPayment(client, payer, own)));
    return readNames(
      client,
      found.map(({ token }) => token.network),
    );
  });
  if (options.json) for (const one of found) console.log(JSON.stringify(toJson(one)));
  else printTable(found, { ...COLUMNS, NETWORK: ({ token }) => names.network(token.network) });
}

async function readTransfers(tokens: readonly AcceptedToken[], since: number): Promise<ReceivedTransfer[]> {
  const [{ readReceivedTransfers }, methods] = await Promise.all([
    import("../../../x402/settlement/paid-transaction.ts"),
    loadMethods(),
  ]);
  // A token can be listed for each transfer method.
  const accounts = new Map(tokens.map((token) => [accountText(token), token]));
  const found: ReceivedTransfer[] = [];
  for (const token of accounts.values()) {
    const { symbol, network, rpcUrl } = token;
    if (rpcUrl === undefined) {
      console.error(`${symbol} on ${network} has no rpc_url, so its transfers cannot be read.`);
      continue;
    }
    try {
      found.push(...(await readReceivedTransfers({ ...token, rpcUrl }, since, methods)));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Refusal([
        `The rpc_url of ${symbol} on ${network} cannot be queried for its transfers: ${reason}`,
      ]);
    }
  }
  return found;
}

const accountText = ({ network, asset, payTo }: AcceptedToken) =>
  [network, oneSpelling(asset), oneSpelling(payTo)].join("/");

/**
 * Removes the transfers that the payer's payments made. Reads all payments of the payer, even payments from before the copy,
 * because a payment that was undecided for long may have made a transfer.
 */
async function withoutPayment(
  client: OperatorClient,
  payer: string,
  transfers: readonly ReceivedTransfer[],
): Promise<MissingPayment[]> {
  const left = [...transfers];
  const undecided: Payment[] = [];
  let pageToken = "";
  do {
    const page = await client.listPayments({ payer, pageSize: MAX_PAGE_SIZE, pageToken });
    for (const payment of page.payments) {
      const state = paymentStateText(payment.state);
      const { transaction } = payment;
      // Money that moved under the authorization of such a payment bought nothing here, so it is missing.
      if (state === "failed" || state === "released") continue;
      if (transaction !== "") {
        const made = left.findIndex(
          (transfer) => transfer.transaction === oneSpelling(transaction) && isSum(payment, transfer),
        );
        if (made !== -1) left.splice(made, 1);
      } else undecided.push(payment);
    }
    pageToken = page.nextPageToken;
  } while (left.length > 0 && pageToken !== "");
  return left.map((transfer) => {
    const candidates = undecided.filter((payment) => isSum(payment, transfer)).map(({ callId }) => callId);
    return { ...transfer, candidates };
  });
}

/** Returns true if the transfer has the payment's token and amount. */
function isSum({ network, asset, amount }: Payment, transfer: ReceivedTransfer): boolean {
  const { token } = transfer;
  return (
    network === token.network &&
    oneSpelling(asset) === oneSpelling(token.asset) &&
    BigInt(amount) === transfer.amount
  );
}

const COLUMNS: Columns<MissingPayment> = {
  NETWORK: ({ token }) => token.network,
  BLOCK: ({ block }) => String(block),
  TRANSACTION: ({ transaction }) => transaction,
  AMOUNT: ({ amount, token }) => amountText(amount, token.symbol, token.decimals),
  FROM: ({ from }) => from,
  "MAY BE": ({ candidates }) => candidates.join(", "),
};

function toJson({ token, from, amount, transaction, block, candidates }: MissingPayment) {
  const { network, asset, symbol, payTo } = token;
  return {
    ...{ network, asset, symbol, amount: String(amount) },
    amount_text: amountText(amount, symbol, token.decimals),
    ...{ from, pay_to: payTo, transaction, block: String(block), candidates: candidates.map(String) },
  };
}
