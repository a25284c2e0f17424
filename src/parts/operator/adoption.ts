import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import { amountText } from "../../core/amounts.ts";
import { isPartial, oneSpelling } from "../../core/payment.ts";
import type { AdoptPaymentRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import { invalid, readSignature } from "../../operator/requests.ts";
import type { ChainPayment } from "../../x402/settlement/chain-payment.ts";
import type { OperatorSources } from "./sources.ts";

type Sources = Pick<OperatorSources, "store" | "configuration" | "jobs" | "loadMethods">;

/** Adopts the payments that a transaction made, and that the journal lacks. */
export async function adoptPayment(request: AdoptPaymentRequest, sources: Sources, logger: Logger) {
  const signature = readSignature(request);
  const transaction = oneSpelling(request.transaction);
  const paid = await read(sources, transaction);
  const listed = await sources.jobs();
  const payments = [];
  const known: number[] = [];
  for (const { token, ...payment } of paid) {
    const outcome = await sources.store.adoptPayment({ ...payment, ...signature });
    if (outcome.kind === "payment_known") {
      known.push(outcome.callId);
      continue;
    }
    const { key, amount } = payment;
    if (outcome.changed)
      logger.warn({ payment: key, transaction, ...signature }, "payment adopted by the operator");
    const sold = listed.filter(({ offers }) => offers.some((offer) => isPrice(offer, token, amount)));
    payments.push({
      ...key,
      amount,
      amountText: amountText(amount, token.symbol, token.decimals),
      symbol: token.symbol,
      payTo: payment.payTo,
      transaction,
      jobs: sold.map(({ serviceId, jobIndex }) => ({ serviceId, jobIndex })),
      adoptedBefore: !outcome.changed,
    });
  }
  if (payments.length === 0)
    throw new ConnectError(
      `The transaction's payments are in the journal, as ${known.join(", ")}: they cannot be adopted.`,
      Code.FailedPrecondition,
    );
  return { payments, journalled: known.map(BigInt) };
}

async function read(
  { configuration, loadMethods }: Sources,
  transaction: string,
): Promise<readonly ChainPayment[]> {
  // The libraries of chains are loaded when they are needed, because a jobgate without [x402] does not use them.
  const [{ readPaidTransaction }, { NotPaid }, methods] = await Promise.all([
    import("../../x402/settlement/paid-transaction.ts"),
    import("../../x402/settlement/chain-history.ts"),
    loadMethods(),
  ]);
  if (![...methods].some(({ name }) => methods.isTransaction(name, transaction)))
    throw invalid(
      "transaction: expected the name of a transaction, which is a hash of 0x and 64 hex digits on an EVM chain.",
    );
  try {
    return await readPaidTransaction(configuration().x402?.acceptedTokens ?? [], transaction, methods);
  } catch (error) {
    if (error instanceof NotPaid) throw new ConnectError(error.message, Code.FailedPrecondition);
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConnectError(`The token's rpc_url does not show the transaction: ${reason}`, Code.Unavailable);
  }
}

type ListedOffer = Awaited<ReturnType<OperatorSources["jobs"]>>[number]["offers"][number];

function isPrice(
  { token: sold, amount: price, charge }: ListedOffer,
  token: ChainPayment["token"],
  amount: string,
) {
  const isSameToken = sold.network === token.network && oneSpelling(sold.asset) === oneSpelling(token.asset);
  return isSameToken && price === amount && !isPartial(charge?.kind ?? "before");
}
