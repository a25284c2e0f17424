import { Code, ConnectError } from "@connectrpc/connect";
import { expect } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { type Refund, RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { nameIn } from "../../src/operator/messages.ts";
import { REFUND_STATES } from "../../src/parts/refunds/operator-states.ts";
import type { PaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts } from "./paid-parts.ts";
import type { RefundAccount } from "./refund-account.ts";

/**
 * States of a paid JobCall and its refund: delivered; or failed, and the money was kept, paid back, or is owed. Only an end
 * that owes nothing may be forgotten.
 */
const ENDS = [
  "succeeded, no refund",
  "failed, declined",
  "failed, refunded",
  "failed, owed",
  "expired, no refund",
];
const ENDS_WITHOUT_PROMISE = ["succeeded, no refund", "failed, no refund", "expired, no refund"];

export function operatorOf({ jobgate }: PaidGateway) {
  return createOperatorClient({ address: { url: jobgate.operatorUrl } });
}

/** Decisions of an operator in one run, and what must hold of its failed jobs in the end. */
export class ModelRefunds {
  readonly #parts: PaidParts;
  readonly #gateway: PaidGateway;
  /** Undefined: buyers are promised nothing. */
  readonly #account: RefundAccount | undefined;
  #sentBefore = 0;

  constructor(options: { parts: PaidParts; gateway: PaidGateway; account: RefundAccount | undefined }) {
    this.#parts = options.parts;
    this.#gateway = options.gateway;
    this.#account = options.account;
  }

  /** Begins a run with tokens for some refunds only. */
  async begin(): Promise<void> {
    this.#sentBefore = (await this.#transfers()).length;
    await this.#fund(3);
  }

  async decide(callId: number, as: "approve" | "decline"): Promise<void> {
    const decision = { callId: BigInt(callId), by: "model", note: as };
    const operator = operatorOf(this.#gateway);
    const deciding = as === "approve" ? operator.approveRefund(decision) : operator.declineRefund(decision);
    await deciding.catch((error: unknown) => {
      if (![Code.NotFound, Code.FailedPrecondition].includes(ConnectError.from(error).code)) throw error;
    });
  }

  async retry(callId: number): Promise<void> {
    await operatorOf(this.#gateway).retryDeadLetters({ callIds: [BigInt(callId)] });
  }

  /** Gives the account enough, and waits until no refund is on its way. @param options `mine` lets the chain go on */
  async end(purchases: number, { mine }: { readonly mine: () => Promise<void> }): Promise<void> {
    await this.#fund(purchases);
    const onTheWay = async () => {
      await mine();
      return (await this.#list()).filter(
        ({ state, asks }) => state === RefundState.SENDING || (state === RefundState.OWED && !asks),
      );
    };
    await expect.poll(onTheWay, { timeout: 120_000, interval: 50 }).toEqual([]);
  }

  /**
   * Checks that `settled = delivered + kept + refunded + owed` holds for these settled payments, call by call and by
   * the chain's transfers.
   * @returns the units that were paid back
   */
  async expectLaw(callIds: readonly number[]): Promise<bigint> {
    const refunds = new Map((await this.#list()).map((refund) => [Number(refund.callId), refund]));
    const ends = await Promise.all(
      callIds.map(async (callId) => {
        const { state = RefundState.UNSPECIFIED } = refunds.get(callId) ?? {};
        const call = await this.#gateway.journal.callState(callId);
        return { callId, end: `${call}, ${nameIn(REFUND_STATES, state) ?? "no refund"}` };
      }),
    );
    const allowed = this.#account === undefined ? ENDS_WITHOUT_PROMISE : ENDS;
    expect(ends.filter(({ end }) => !allowed.includes(end))).toEqual([]);

    const sent = (await this.#transfers()).slice(this.#sentBefore);
    const refunded = callIds.flatMap((callId) => {
      const refund = refunds.get(callId);
      return refund?.state === RefundState.REFUNDED ? { value: AMOUNT, transaction: refund.transaction } : [];
    });
    const byTransaction = (a: { transaction: string }, b: { transaction: string }) =>
      a.transaction < b.transaction ? -1 : 1;
    expect(sent.map(({ value, transaction }) => ({ value, transaction })).sort(byTransaction)).toEqual(
      refunded.sort(byTransaction),
    );
    expect((await operatorOf(this.#gateway).getTotals({})).balanced).toBe(true);
    return BigInt(sent.length) * AMOUNT;
  }

  async #list(): Promise<Refund[]> {
    return (await operatorOf(this.#gateway).listRefunds({ pageSize: 500 })).refunds;
  }

  async #transfers() {
    return (await this.#account?.transfers()) ?? [];
  }

  async #fund(refunds: number): Promise<void> {
    if (this.#account !== undefined)
      await this.#parts.usdc.mint(this.#account.address, BigInt(refunds) * AMOUNT);
  }
}
