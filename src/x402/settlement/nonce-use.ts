import { type Log, type PublicClient, parseEventLogs } from "viem";
import { isRefusal } from "../../chain/chain-client.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import { NONCE_EVENTS, TOKEN_EVENTS } from "./token-events.ts";

/** The event that used up the nonce of a payment. */
export interface NonceUse {
  readonly eventName: "AuthorizationUsed" | "AuthorizationCanceled";
  readonly blockNumber: bigint;
  readonly transactionHash: `0x${string}`;
  /** All logs of the transaction, when they are known already. */
  readonly logs?: readonly Log[];
}

/** The RPC answers no question for logs, however few blocks it is about. */
export class LogsRefused extends Error {
  override readonly name = "LogsRefused";
}

/** How many blocks one question is about. RPC providers refuse long ranges, some of them over ten blocks. */
const MAX_LOG_RANGE = 2_000n;
const MIN_LOG_RANGE = 10n;
/** Bounds one search: an authorization is used within its lifetime, so soon after its start block if ever. */
const MAX_LOG_QUERIES = 200;

/** Finds the event that used up the payment's nonce among all logs of a transaction. */
export function findUse(logs: readonly Log[], { key }: PaymentIntent): NonceUse | undefined {
  const own = logs.filter((log) => log.address.toLowerCase() === key.asset);
  const events = parseEventLogs({
    abi: TOKEN_EVENTS,
    logs: own,
    eventName: ["AuthorizationUsed", "AuthorizationCanceled"],
  });
  for (const event of events) {
    const { authorizer, nonce } = event.args;
    if (authorizer.toLowerCase() !== key.payer || nonce.toLowerCase() !== key.nonce) continue;
    if (event.blockNumber === null || event.transactionHash === null) continue;
    const { eventName, blockNumber, transactionHash } = event;
    return { eventName, blockNumber, transactionHash, logs };
  }
  return undefined;
}

/** Searches the chain from a payment's start block on. @throws LogsRefused */
export type SearchUse = (
  client: PublicClient,
  intent: PaymentIntent,
  head: bigint,
) => Promise<NonceUse | undefined>;

/** Learns how long a range the RPC takes, and keeps to it. */
export function createNonceSearch(): SearchUse {
  let range = MAX_LOG_RANGE;

  return async (client, intent, head) => {
    let from = intent.fromBlock === undefined ? latestBlocks(head) : BigInt(intent.fromBlock);
    for (let query = 0; query < MAX_LOG_QUERIES && from <= head; query++) {
      const to = from + range - 1n < head ? from + range - 1n : head;
      try {
        const use = await findUseIn(client, intent, from, to);
        if (use !== undefined) return use;
        from = to + 1n;
      } catch (error) {
        if (!isRefusal(error)) throw error;
        const asked = to - from + 1n;
        if (asked <= MIN_LOG_RANGE) throw new LogsRefused("the RPC refuses to search logs", { cause: error });
        const smaller = asked / 4n;
        range = smaller < MIN_LOG_RANGE ? MIN_LOG_RANGE : smaller;
      }
    }
    return undefined;
  };

  /** As far back as one search can reach. */
  function latestBlocks(head: bigint): bigint {
    const reach = range * BigInt(MAX_LOG_QUERIES);
    return head >= reach ? head - reach + 1n : 0n;
  }
}

async function findUseIn(
  client: PublicClient,
  intent: PaymentIntent,
  fromBlock: bigint,
  toBlock: bigint,
): Promise<NonceUse | undefined> {
  const { asset, payer, nonce } = intent.key as Record<"asset" | "payer" | "nonce", `0x${string}`>;
  const found = await Promise.all(
    NONCE_EVENTS.map((event) =>
      client.getLogs({ address: asset, event, args: { authorizer: payer, nonce }, fromBlock, toBlock }),
    ),
  );
  const logs: Log[] = found.flat();
  const use = findUse(logs, intent);
  if (use === undefined) return undefined;
  // These are not all logs of its transaction.
  const { logs: _some, ...rest } = use;
  return rest;
}
