import { authorizationTypes } from "@x402/evm";
import * as z from "zod";
import { chainIdOf } from "../../chain/chain-client.ts";
import { recoverTypedDataAddress } from "../../chain/recover-address.ts";
import { asNumber, type Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { EIP3009 } from "../../core/payment.ts";
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
import type {
  Method,
  PayerFundsReader,
  SettlablePayload,
  SignedFields,
  SignedPayment,
  SignedToken,
} from "./method.ts";
import { isUsed, LOW_BALANCE, readBalance, USED_ELSEWHERE } from "./payer-balance.ts";
import { address, fingerprintOf, loose, lowerCase, signature, uint } from "./payload-values.ts";

const payload = z
  .object({
    signature,
    authorization: z
      .object({
        from: address,
        to: address,
        value: uint,
        validAfter: uint,
        validBefore: uint,
        nonce: z.string().regex(/^0x[0-9a-fA-F]{64}$/, "expected 0x and 64 hex digits"),
      })
      .strict(),
  })
  .strict()
  .transform(
    ({ signature, authorization: { from, to, value, validAfter, validBefore, nonce } }): SignedFields => {
      const fields = {
        transferMethod: EIP3009.name,
        from: lowerCase(from),
        to: lowerCase(to),
        value,
        validAfter,
        validBefore,
        nonce: lowerCase(nonce),
      };
      const { transferMethod: _, ...signed } = fields;
      return { ...signed, fingerprint: fingerprintOf(signature, fields) };
    },
  );

const settlable = z.looseObject({
  signature: loose.hex,
  authorization: z.looseObject({
    from: loose.address,
    to: loose.address,
    value: loose.uint,
    validAfter: loose.uint,
    validBefore: loose.uint,
    nonce: loose.word,
  }),
});

/** Reads the limit of an EIP-3009 payer: the payer's balance of the token. */
const EIP3009_FUNDS: PayerFundsReader = {
  read: readBalance,

  async findShortfall(rpc, payment) {
    const authorization = new Eip3009Authorization(payment);
    const [balance, wasUsed] = await Promise.all([readBalance(rpc, payment), isUsed(rpc, authorization)]);
    if (wasUsed) return USED_ELSEWHERE;
    return balance !== undefined && balance < BigInt(payment.amount) ? LOW_BALANCE : undefined;
  },
};

/** EIP-3009: the token contract checks the signature and transfers its own tokens. */
export const EIP3009_METHOD: Method = {
  ...EIP3009,
  extensions: {},
  // The payload of another method might contain these keys among others.
  owns: (payload) => Object.keys(payload).every((key) => key === "authorization" || key === "signature"),
  payload: { schema: payload, kind: "an EIP-3009 authorization" },
  pays: ({ to, value }, { token, amount }) => to === token.payTo.toLowerCase() && value === BigInt(amount),
  compared: "recipient",
  recoverSigner,
  authorizationOf: (payment) => new Eip3009Authorization(payment),
  paymentsIn,
  funds: EIP3009_FUNDS,
  readSettlable,
};

async function recoverSigner(payment: SignedPayment, token: SignedToken): Promise<string | undefined> {
  const { from, to, value, validAfter, validBefore, nonce } = payment;
  const { network, asset, eip3009 } = token;
  const { signature } = payment.payload.payload as { signature: `0x${string}` };
  return recoverTypedDataAddress({
    domain: { ...eip3009, chainId: chainIdOf(network), verifyingContract: asset as `0x${string}` },
    types: authorizationTypes,
    primaryType: "TransferWithAuthorization",
    message: {
      from: from as `0x${string}`,
      to: to as `0x${string}`,
      value,
      validAfter,
      validBefore,
      nonce: nonce as `0x${string}`,
    },
    signature,
  });
}

function readSettlable(payload: object): SettlablePayload | undefined {
  const { data } = settlable.safeParse(payload);
  return data && { from: data.authorization.from, validBefore: data.authorization.validBefore };
}

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

/** EIP-3009: the token contract keeps the nonce, and emits an event with it when the nonce is used or cancelled. */
export class Eip3009Authorization implements Authorization {
  readonly payment: AuthorizedPayment;
  readonly validAfter: bigint;
  readonly endsAt: bigint;
  readonly nonceCall: Authorization["nonceCall"];
  /** The token transfers its own tokens, and a contract that does not keep the nonce transfers nothing. */
  readonly needsContract = false;
  readonly logFilters: Authorization["logFilters"];

  constructor(payment: AuthorizedPayment) {
    this.payment = payment;
    const { key, payload, validBefore } = payment;
    const signed = JSON.parse(payload) as { payload?: { authorization?: { validAfter?: string } } };
    this.validAfter = BigInt(signed.payload?.authorization?.validAfter ?? 0);
    this.endsAt = BigInt(validBefore);
    const payerWord = addressWord(key.payer);
    // authorizationState(address,bytes32) is also true after a cancellation.
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
 * One transaction can use several authorizations of one payer, and one transfer must then not pay two payments. So a payment
 * is only matched with the transfer that directly follows its own AuthorizationUsed, as in EIP-3009's reference
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

/** Pairs each use of an authorization with the transfer that directly follows it in the token's logs. */
function paymentsIn(mined: MinedTransaction, token: AcceptedToken): ChainPayment[] {
  const events = tokenEvents(mined.logs, token.asset.toLowerCase());
  return events.flatMap((used, i) => {
    const moved = events[i + 1];
    if (used.name !== "AuthorizationUsed" || moved?.name !== "Transfer") return [];
    if (moved.from !== used.authorizer || moved.to !== token.payTo.toLowerCase()) return [];
    return [toChainPayment(mined, token, { payer: used.authorizer, nonce: used.nonce, value: moved.value })];
  });
}

/** Returns a token's events in their order. */
export function tokenEvents(logs: readonly RawLog[], asset: string): TokenEvent[] {
  return logs.flatMap((log) => (log.address.toLowerCase() === asset ? (readTokenEvent(log) ?? []) : []));
}

/** Reads the event of a log. @returns undefined for another event, or an event with other fields */
function readTokenEvent(log: RawLog): TokenEvent | undefined {
  const [topic, ...indexed] = log.topics;
  const name = topic === EVENT_TOPICS.AuthorizationUsed ? "AuthorizationUsed" : "AuthorizationCanceled";
  if (topic !== EVENT_TOPICS[name]) return readTransfer(log);
  const [authorizer, nonce] = [readWord(indexed[0]), readWord(indexed[1])];
  if (authorizer === undefined || nonce === undefined) return undefined;
  return { name, authorizer: wordAddress(authorizer), nonce: `0x${nonce}` };
}
