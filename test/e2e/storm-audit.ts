import { parseEventLogs } from "viem";
import { accounts } from "../helpers/accounts.ts";
import { eip3009TokenAbi } from "../helpers/usdc.ts";
import type { Answer } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts } from "./paid-parts.ts";
import { isFinal, type Storm } from "./storm.ts";

const BLOCKS_PER_QUERY = 1_000n;

/** Broken promises, by name, each with what is known of the payment. */
export type Verdict = Readonly<Record<(typeof PROMISES)[number], readonly unknown[]>>;

const PROMISES = [
  "settled payments without their job",
  "second jobs of one payment",
  "charges for a refused request",
  "jobs without a payment",
  "undecided payments",
  "clients left without an end",
  "wrong answers",
] as const;

export const ALL_KEPT = Object.fromEntries(PROMISES.map((promise) => [promise, []])) as unknown as Verdict;

/** The whole chain's transfers, from the logs of the token itself. */
interface ChainFacts {
  /** Transaction by authorizer and nonce, of authorizations that paid the recipient the amount. */
  readonly paid: ReadonlyMap<string, string>;
  /** Transfers to the recipient. */
  readonly transfers: number;
}

/** Compares the chain, the runner's JobCalls, the clients' answers and the journal, payment by payment. */
export async function audit(storm: Storm): Promise<{ verdict: Verdict; figures: Record<string, number> }> {
  const { parts, gateway, purchases } = storm;
  const chain = await readChain(parts);
  const records = new Map((await gateway.journal.payments()).map((record) => [record.key.nonce, record]));
  const jobs = new Map<string, { callId: number; attempt: number }[]>();
  for (const { body, callId, attempt } of gateway.delivered) {
    const name = Buffer.from(body).toString();
    jobs.set(name, [...(jobs.get(name) ?? []), { callId: Number(callId), attempt }]);
  }
  const verdict: Record<string, unknown[]> = Object.fromEntries(PROMISES.map((promise) => [promise, []]));
  let paidOutside = 0;

  for (const purchase of purchases) {
    const { payment, body, answers, misuses, plan } = purchase;
    const { from, nonce } = payment.signed.authorization;
    const paid = chain.paid.has(useKey(from, nonce));
    const record = records.get(nonce.toLowerCase());
    const deliveries = jobs.get(body) ?? [];
    const callIds = [...new Set(deliveries.map(({ callId }) => callId))];
    const attempts = deliveries.map(({ attempt }) => attempt);
    const found = {
      body,
      settling: plan.settling,
      paid,
      record: record && { callId: record.callId, state: record.state, reason: record.reason },
      deliveries,
      answers: answers.map((answer) => answer && (answer.code ?? `${answer.status} call ${answer.call_id}`)),
      misuses: misuses.map((answer) => answer && (answer.code ?? answer.status)),
    };
    const report = (promise: (typeof PROMISES)[number]) =>
      verdict[promise]?.push({ ...found, logs: storm.logsAbout(purchase) });

    // Money that moved before jobgate saw the payment is somebody else's sale.
    const isOurs = record !== undefined || !plan.usedBefore;
    if (paid && !isOurs) paidOutside++;
    const isSettled = record?.state === "settled";
    if (isOurs && paid && callIds.length === 0) report("settled payments without their job");
    if (callIds.length > 1 || new Set(attempts).size !== attempts.length)
      report("second jobs of one payment");
    const refused = answers.length > 0 && answers.every((answer) => answer?.charged === false);
    const failed = answers.some((answer) => answer?.charged === false && answer.retryable === false);
    if (isOurs && paid && (refused || failed)) report("charges for a refused request");
    const ended = answers.some(
      (answer) => isFinal(answer) && (answer?.charged !== "unknown" || plan.usedBefore),
    );
    if (purchase.wentOn && !ended) report("clients left without an end");
    if (callIds.length > 0 && !paid) report("jobs without a payment");
    if (record?.state === "intent" || record?.state === "unresolved") report("undecided payments");
    else if (isOurs && paid !== isSettled) report("wrong answers");
    const wrong = answers.some((answer) => answer?.status === 202 && answer.call_id !== record?.callId);
    const wrongCall = callIds.some((callId) => callId !== record?.callId);
    const misused = misuses.some((answer) => answer !== undefined && !isHonestRefusal(answer));
    if (wrong || wrongCall || misused) report("wrong answers");
  }

  const settled = [...records.values()].filter(({ state }) => state === "settled").length;
  const names = new Set(purchases.map(({ body }) => body));
  for (const [name, deliveries] of jobs) {
    if (!names.has(name)) verdict["jobs without a payment"]?.push({ name, deliveries });
  }
  const expectedTransfers = settled + paidOutside + storm.outsideTransfers.length;
  if (chain.transfers !== expectedTransfers) {
    verdict["wrong answers"]?.push({ transfers: chain.transfers, settled, paidOutside });
  }
  return {
    verdict: verdict as unknown as Verdict,
    figures: {
      payments: purchases.length,
      settled,
      failed: [...records.values()].filter(({ state }) => state === "failed").length,
      "never journalled": purchases.length - records.size,
      "paid outside before": paidOutside,
      "transfers on the chain": chain.transfers,
      jobs: jobs.size,
      "JobCalls delivered": gateway.delivered.length,
    },
  };
}

/**
 * True if an answer to a misused payment says that nothing was charged. A store that cannot be asked does not know the
 * payment's first use, so that answer is "unknown".
 */
function isHonestRefusal({ code, charged }: Answer): boolean {
  return charged === false || (charged === "unknown" && code === "store_unavailable");
}

/** Reads the whole chain. */
export async function readChain({ anvil, usdc }: PaidParts): Promise<ChainFacts> {
  const head = await anvil.client.getBlockNumber();
  const paid = new Map<string, string>();
  let transfers = 0;
  for (let from = 0n; from <= head; from += BLOCKS_PER_QUERY) {
    const logs = await anvil.client.getLogs({
      address: usdc.address,
      fromBlock: from,
      toBlock: from + BLOCKS_PER_QUERY - 1n,
    });
    const events = parseEventLogs({ abi: eip3009TokenAbi, logs });
    for (const [index, event] of events.entries()) {
      if (event.eventName === "Transfer" && event.args.to === accounts.payTo.address) transfers++;
      if (event.eventName !== "AuthorizationUsed") continue;
      const next = events[index + 1];
      const isPayment =
        next?.eventName === "Transfer" &&
        next.transactionHash === event.transactionHash &&
        next.args.from === event.args.authorizer &&
        next.args.to === accounts.payTo.address &&
        next.args.value === AMOUNT;
      if (isPayment) paid.set(useKey(event.args.authorizer, event.args.nonce), event.transactionHash);
    }
  }
  return { paid, transfers };
}

/** Names the use of an authorization. */
export function useKey(authorizer: string, nonce: string): string {
  return `${authorizer}/${nonce}`.toLowerCase();
}
