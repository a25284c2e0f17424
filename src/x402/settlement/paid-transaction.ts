import type { AcceptedToken } from "../../config/config.ts";
import type { Methods } from "../methods/methods.ts";
import { type ChainHistory, NotPaid, type ReadableToken, type ReceivedTransfer } from "./chain-history.ts";
import type { ChainPayment } from "./chain-payment.ts";
import { EvmHistory } from "./evm-history.ts";

/**
 * Reads the exact payments to configured tokens' `pay_to` that a transaction made.
 * @param tokens tokens without an `rpc_url` are left out
 * @throws NotPaid
 * @throws Error when the chain cannot be queried, without the URL
 */
export async function readPaidTransaction(
  tokens: readonly AcceptedToken[],
  transaction: string,
  methods: Methods,
): Promise<readonly ChainPayment[]> {
  const readable = tokens.filter(
    (token): token is ReadableToken =>
      token.rpcUrl !== undefined && methods.isTransaction(token.transferMethod, transaction),
  );
  const networks = [...new Set(readable.map(({ network }) => network))];
  if (networks.length === 0)
    throw new NotPaid("The transaction cannot be read: no accepted token of such a network has an rpc_url.");
  for (const network of networks) {
    const [first, ...others] = readable.filter((token) => token.network === network);
    const paid = first && (await historyOf(first, methods).paymentsIn(transaction, [first, ...others]));
    if (paid?.length === 0)
      throw new NotPaid("The transaction made no exact payment of an accepted token to its pay_to.");
    if (paid !== undefined) return paid;
  }
  throw new NotPaid(`The transaction is on none of these chains: ${networks.join(", ")}.`);
}

/**
 * Reads the transfers to a token's `pay_to` that no fork can undo, oldest first.
 * @param since Unix milliseconds
 * @throws Error when the chain cannot be queried, without the URL
 */
export function readReceivedTransfers(
  token: ReadableToken,
  since: number,
  methods: Methods,
): Promise<readonly ReceivedTransfer[]> {
  // The time of a block is in whole seconds.
  return historyOf(token, methods).receivedSince(token, since - (since % 1_000));
}

function historyOf({ transferMethod }: AcceptedToken, methods: Methods): ChainHistory {
  return methods.find(transferMethod)?.history ?? new EvmHistory(methods);
}
