import { type Log, type PublicClient, parseAbi, parseEventLogs } from "viem";
import { isRefusal } from "../../chain/chain-client.ts";
import type { PaymentIntent, PaymentKey } from "../../core/payment.ts";

/** Events of EIP-3009, and ERC-20's Transfer. */
export const TOKEN_EVENTS = parseAbi([
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
  "event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
]);
const NONCE_EVENTS = [TOKEN_EVENTS[0], TOKEN_EVENTS[1]] as const;

/** Blocks in one query for logs. RPC providers refuse long ranges, some of them over ten blocks. */
const MAX_LOG_RANGE = 2_000n;
const MIN_LOG_RANGE = 10n;
/** Bound of one search. An authorization is used within its lifetime, so soon after its start block if ever. */
const MAX_LOG_QUERIES = 200;

/** The event that used up the nonce of a payment. */
export interface NonceUse {
  readonly eventName: "AuthorizationUsed" | "AuthorizationCanceled";
  readonly blockNumber: bigint;
  readonly transactionHash: `0x${string}`;
}

/** The RPC refuses every query for logs, even over few blocks. */
export class LogsRefused extends Error {
  override readonly name = "LogsRefused";
}

/** Finds the event that used up the payment's nonce in some logs. */
export function findUse(logs: readonly Log[], { key }: PaymentIntent): NonceUse | undefined {
  const events = parseEventLogs({
    abi: TOKEN_EVENTS,
    logs: ownLogs(logs, key),
    eventName: ["AuthorizationUsed", "AuthorizationCanceled"],
  });
  for (const { args, eventName, blockNumber, transactionHash } of events) {
    if (args.authorizer.toLowerCase() !== key.payer || args.nonce.toLowerCase() !== key.nonce) continue;
    if (blockNumber !== null && transactionHash !== null) return { eventName, blockNumber, transactionHash };
  }
  return undefined;
}

/** Returns the logs that the payment's token wrote. */
export function ownLogs(logs: readonly Log[], { asset }: PaymentKey): Log[] {
  return logs.filter((log) => log.address.toLowerCase() === asset);
}

/** Search of one RPC for the use of a nonce. It learns how many blocks the RPC accepts in one query. */
export class NonceSearch {
  #range = MAX_LOG_RANGE;

  /** Searches from the payment's start block to the head. @throws LogsRefused */
  async find(client: PublicClient, intent: PaymentIntent, head: bigint): Promise<NonceUse | undefined> {
    let from = intent.fromBlock === undefined ? this.#earliestReachable(head) : BigInt(intent.fromBlock);
    for (let query = 0; query < MAX_LOG_QUERIES && from <= head; query++) {
      const to = from + this.#range - 1n < head ? from + this.#range - 1n : head;
      try {
        const use = findUse(await nonceLogs(client, intent, from, to), intent);
        if (use !== undefined) return use;
        from = to + 1n;
      } catch (error) {
        if (!isRefusal(error)) throw error;
        const asked = to - from + 1n;
        if (asked <= MIN_LOG_RANGE) throw new LogsRefused("the RPC refuses to search logs", { cause: error });
        const smaller = asked / 4n;
        this.#range = smaller < MIN_LOG_RANGE ? MIN_LOG_RANGE : smaller;
      }
    }
    return undefined;
  }

  #earliestReachable(head: bigint): bigint {
    const reach = this.#range * BigInt(MAX_LOG_QUERIES);
    return head >= reach ? head - reach + 1n : 0n;
  }
}

async function nonceLogs(
  client: PublicClient,
  intent: PaymentIntent,
  fromBlock: bigint,
  toBlock: bigint,
): Promise<Log[]> {
  const { asset, payer, nonce } = intent.key as Record<"asset" | "payer" | "nonce", `0x${string}`>;
  const found = await Promise.all(
    NONCE_EVENTS.map((event) =>
      client.getLogs({ address: asset, event, args: { authorizer: payer, nonce }, fromBlock, toBlock }),
    ),
  );
  return found.flat();
}
