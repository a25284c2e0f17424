import { asNumber, type Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { Authorization, AuthorizedPayment, NonceUse } from "../settlement/authorization.ts";
import {
  addressWord,
  isOffered,
  type MinedLog,
  type RawLog,
  readTransfer,
  readWord,
  successfulLogs,
  type Transfer,
  wordAddress,
} from "../settlement/chain-logs.ts";
import { type ChainPayment, type MinedTransaction, toChainPayment } from "../settlement/chain-payment.ts";

/** Event that a payment leaves in its token's logs. Addresses and nonces are lower case. */
export type TokenEvent = AuthorizationEvent | Transfer;

interface AuthorizationEvent {
  readonly name: "AuthorizationUsed" | "AuthorizationCanceled";
  readonly authorizer: string;
  readonly nonce: string;
}

/** Hashes of the events' signatures. */
export const EVENT_TOPICS = {
  AuthorizationUsed: "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5",
  AuthorizationCanceled: "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81",
};

/** EIP-3009: the token itself keeps the nonce, and names it in an event when it is used or cancelled. */
export class Eip3009Authorization implements Authorization {
  readonly payment: AuthorizedPayment;
  readonly validAfter: bigint;
  readonly endsAt: bigint;
  readonly nonceCall: Authorization["nonceCall"];
  /** The token moves itself: one that does not keep the nonce moves nothing. */
  readonly needsContract = false;
  readonly logFilters: Authorization["logFilters"];

  constructor(payment: AuthorizedPayment) {
    this.payment = payment;
    const { key, payload, validBefore } = payment;
    const signed = JSON.parse(payload) as { payload?: { authorization?: { validAfter?: string } } };
    this.validAfter = BigInt(signed.payload?.authorization?.validAfter ?? 0);
    this.endsAt = BigInt(validBefore);
    const payerWord = addressWord(key.payer);
    // authorizationState(address,bytes32), which is also true after a cancellation.
    this.nonceCall = { to: key.asset, data: `0xe94a0102${payerWord}${key.nonce.slice(2)}` };
    this.logFilters = Object.values(EVENT_TOPICS).map((topic) => ({
      address: key.asset,
      topics: [topic, `0x${payerWord}`, key.nonce],
    }));
  }

  isUsed(answer: bigint): boolean | undefined {
    return answer > 1n ? undefined : answer === 1n;
  }

  async useAmong(_rpc: Rpc, logs: readonly MinedLog[]): Promise<NonceUse | undefined> {
    return this.#firstUse(logs);
  }

  async useIn(rpc: Rpc, transaction: string): Promise<NonceUse | undefined> {
    const logs = await successfulLogs(rpc, transaction);
    const use = logs && this.#firstUse(logs);
    if (use?.outcome.kind !== "unread") return use;
    return { ...use, outcome: outcomeOf(use.outcome.transaction, logs ?? [], this.payment) };
  }

  #firstUse(logs: readonly MinedLog[]): NonceUse | undefined {
    const { key } = this.payment;
    for (const log of logs) {
      const { address, blockNumber, blockHash, transactionHash } = log;
      if (address.toLowerCase() !== key.asset) continue;
      const event = readTokenEvent(log);
      if (event === undefined || event.name === "Transfer") continue;
      if (event.authorizer !== key.payer || event.nonce !== key.nonce) continue;
      if (blockNumber === null || blockHash === null || transactionHash === null) continue;
      const outcome: NonceUse["outcome"] =
        event.name === "AuthorizationCanceled"
          ? { kind: "cancelled" }
          : { kind: "unread", transaction: transactionHash };
      return { blockNumber: asNumber(blockNumber), blockHash, outcome };
    }
    return undefined;
  }
}

/**
 * Finds out whether the transaction that used a payment's nonce also made the payment: a Transfer of the exact amount
 * from the payer to the recipient.
 *
 * One transaction can use several authorizations of one payer, and then one transfer must not count for two payments.
 * Each counts only with the transfer that directly follows its own AuthorizationUsed, as in EIP-3009's reference
 * implementation. If the logs are in another order, the answer is `ambiguous`.
 * @param logs all logs of the transaction, in order
 */
export function outcomeOf(
  transaction: string,
  logs: readonly RawLog[],
  payment: AuthorizedPayment,
): NonceUse["outcome"] {
  const events = tokenEvents(logs, payment.key.asset).filter(({ name }) => name !== "AuthorizationCanceled");
  const isPayment = (event: TokenEvent) => event.name === "Transfer" && isOffered(event, payment);
  if (!events.some(isPayment)) return { kind: "used_otherwise" };
  const isUse = (event: TokenEvent): event is AuthorizationEvent =>
    event.name === "AuthorizationUsed" && event.authorizer === payment.key.payer;
  if (events.filter(isUse).length === 1) return { kind: "paid", transaction };

  const index = events.findIndex((event) => isUse(event) && event.nonce === payment.key.nonce);
  const next = events[index + 1];
  if (next !== undefined && isPayment(next)) return { kind: "paid", transaction };
  return { kind: next?.name === "Transfer" ? "used_otherwise" : "ambiguous" };
}

/** Takes each use of an authorization with the transfer that directly follows it, as the token's contract logs them. */
export function paymentsIn(mined: MinedTransaction, token: AcceptedToken): ChainPayment[] {
  const events = tokenEvents(mined.logs, token.asset.toLowerCase());
  return events.flatMap((used, i) => {
    const moved = events[i + 1];
    if (used.name !== "AuthorizationUsed" || moved?.name !== "Transfer") return [];
    if (moved.from !== used.authorizer || moved.to !== token.payTo.toLowerCase()) return [];
    return [toChainPayment(mined, token, { payer: used.authorizer, nonce: used.nonce, value: moved.value })];
  });
}

/** Returns the events of a token, in order. */
export function tokenEvents(logs: readonly RawLog[], asset: string): TokenEvent[] {
  return logs.flatMap((log) => (log.address.toLowerCase() === asset ? (readTokenEvent(log) ?? []) : []));
}

/** Reads the event of a log. @returns undefined for another event, or one with other fields */
function readTokenEvent(log: RawLog): TokenEvent | undefined {
  const [topic, ...indexed] = log.topics;
  const name = topic === EVENT_TOPICS.AuthorizationUsed ? "AuthorizationUsed" : "AuthorizationCanceled";
  if (topic !== EVENT_TOPICS[name]) return readTransfer(log);
  const [authorizer, nonce] = [readWord(indexed[0]), readWord(indexed[1])];
  if (authorizer === undefined || nonce === undefined) return undefined;
  return { name, authorizer: wordAddress(authorizer), nonce: `0x${nonce}` };
}
