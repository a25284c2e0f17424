import { setTimeout as sleep } from "node:timers/promises";
import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest, JobRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import { decodeHeader, encodeHeader, readPayload } from "../../x402/wire/payment-header.ts";
import { VERSION_2 } from "../../x402/wire/version.ts";
import { correction } from "./correction.ts";
import { isSigned } from "./method.ts";
import type { NetworkChannels } from "./network-channels.ts";
import { asksForRefund, type RefundRequest, readRefund } from "./payload.ts";
import type { ChannelLedger } from "./store/ledger.ts";
import { type ChannelRefund, refundOf } from "./store/refund-rules.ts";
import { BAD_SIGNATURE, NOT_FOUND, NOTHING_TO_REFUND, REFUND_WAITS } from "./store/refusal-texts.ts";
import type { ChannelRow } from "./store/row.ts";
import { mismatchOf } from "./store/rules.ts";

/** Code of an answer while the refund is being sent. */
const UNDECIDED = "settlement_unknown";
/** Longest time that a request waits for its refund, and the time between two checks. */
const WAIT_MS = 30_000;
const LOOK_MS = 250;
/** Longest time that a refund waits for a claim. */
const CLAIM_MS = 10_000;

/** Reports whether a request has a request for a refund, well-formed or not, in place of a payment. */
export function isForRefund(request: JobRequest): boolean {
  // HEAD moves no money.
  if (request.method === "HEAD") return false;
  const [header, ...others] = request.headerValues(VERSION_2.headers.payment);
  if (header === undefined || others.length > 0) return false;
  try {
    const { payload } = decodeHeader(header) as { readonly payload?: unknown };
    return asksForRefund(payload);
  } catch {
    return false;
  }
}

/** Pays the rest of channels back to payers who request it. x402 clients send such a request without a payment, to any job. */
export class ChannelRefunds {
  readonly #ledger: ChannelLedger;
  readonly #networkOf: (row: ChannelRow) => NetworkChannels | undefined;

  constructor(parts: {
    readonly ledger: ChannelLedger;
    readonly networkOf: (row: ChannelRow) => NetworkChannels | undefined;
  }) {
    this.#ledger = parts.ledger;
    this.#networkOf = parts.networkOf;
  }

  /**
   * Pays back what a payer requests. A repeated request gets its first outcome.
   * @throws GatewayError with the reason why nothing is paid back, or not yet
   */
  async answer(request: HttpRequest): Promise<HttpResponse> {
    const asked = readRefund(readPayload(request, VERSION_2)?.payload);
    const { channelId, amount, id } = asked;
    const found = await this.#ledger.findChannel(channelId);
    const network = found && this.#networkOf(found);
    if (found === undefined || network === undefined) throw refused(NOT_FOUND);
    if (!(await isSigned(asked, found.network))) throw refused(BAD_SIGNATURE);
    const first = await this.#ledger.findChannelRefund(channelId, id);
    const isPaid = first?.state === "done";
    if (isPaid && amount !== undefined) return answerOf(found, first);
    try {
      return answerOf(found, await this.#payBack(network, found, asked));
    } catch (error) {
      // After a request for all that was paid, only more that has become free since is paid.
      if (isPaid && error instanceof GatewayError && error.code !== UNDECIDED) return answerOf(found, first);
      throw error;
    }
  }

  /** @throws GatewayError */
  async #payBack(network: NetworkChannels, found: ChannelRow, asked: RefundRequest): Promise<ChannelRefund> {
    const { channelId, cumulative, amount, id: request } = asked;
    if (!network.canSign(found)) throw unavailable("The seller has no key for the channel now.");
    for (;;) {
      // The charges of failed calls are paid back together with the rest.
      await network.count(channelId);
      const { row, chain } = await this.#lookAfterClaim(network, found).catch((cause: unknown) => {
        throw cause instanceof GatewayError
          ? cause
          : unavailable("The channel's chain does not answer now.", cause);
      });
      if (cumulative < BigInt(row.charged)) throw correction(mismatchOf(row));
      const decision = await this.#ledger.beginChannelRefund(channelId, {
        ...{ chain, amount: amount?.toString(), request },
      });
      if (decision.kind === "paid") return decision.refund;
      if (decision.kind !== "refunding")
        throw refused(decision.kind === "busy" ? REFUND_WAITS : NOTHING_TO_REFUND);
      const paid = await this.#paid(network, decision);
      // A refund that another request has begun comes first.
      if (paid.request === request) return paid;
    }
  }

  /**
   * Compares a channel with its chain once the chain has the claim in progress. If the chain does not have the claim in
   * time, compares the channel without the claim.
   */
  async #lookAfterClaim(network: NetworkChannels, found: ChannelRow): ReturnType<NetworkChannels["look"]> {
    const endsAt = performance.now() + CLAIM_MS;
    for (;;) {
      const looked = await network.look((await this.#ledger.findChannel(found.channel_id)) ?? found);
      const { status, asked, claimed } = looked.row;
      const isClaiming = status === "open" && BigInt(asked) > BigInt(claimed);
      if (!isClaiming || performance.now() >= endsAt) return looked;
      await sleep(LOOK_MS);
    }
  }

  /** Waits until a refund is paid. @throws GatewayError after the time limit; the refund is still paid later */
  async #paid(
    network: NetworkChannels,
    { row, refund }: { readonly row: ChannelRow; readonly refund: ChannelRefund },
  ): Promise<ChannelRefund> {
    const endsAt = performance.now() + WAIT_MS;
    while (performance.now() < endsAt) {
      // Another process may have ended the refund.
      const now = await this.#newest(row.channel_id, refund.request);
      if (now?.state === "done") return now;
      // If the chain does not respond, it may respond to the next check.
      const paid = await network.sendRefund(row).catch((error: unknown) => {
        if (error instanceof GatewayError) throw error;
        return undefined;
      });
      const ended = paid && refundOf(paid);
      if (ended !== undefined) return ended;
      await sleep(LOOK_MS);
    }
    throw new GatewayError(
      UNDECIDED,
      "The refund is being sent. Request it again later: it is paid only once.",
      { headers: { "retry-after": "5" } },
    );
  }

  /** Finds the newest refund of a request. @param request undefined for a refund by the operator */
  async #newest(channelId: string, request: string | undefined): Promise<ChannelRefund | undefined> {
    if (request !== undefined) return this.#ledger.findChannelRefund(channelId, request);
    const row = await this.#ledger.findChannel(channelId);
    return row && refundOf(row);
  }
}

function answerOf(found: ChannelRow, refund: ChannelRefund): HttpResponse {
  const { channel_id: channelId, config, network } = found;
  const { amount, transaction = "", nonce } = refund;
  const { balance, claimed, base, withdraw_at } = refund.after ?? found;
  const { payer } = JSON.parse(config) as { readonly payer: string };
  const settlement = {
    ...{ success: true, payer, transaction, amount },
    network,
    extra: {
      channelState: {
        ...{ channelId, balance, totalClaimed: claimed, chargedCumulativeAmount: base },
        ...{ withdrawRequestedAt: withdraw_at ?? 0, refundNonce: String(BigInt(nonce) + 1n) },
      },
    },
  };
  return jsonResponse(
    200,
    { status: "refunded", channel_id: channelId, amount, transaction },
    { "payment-response": encodeHeader(settlement) },
  );
}

function unavailable(why: string, cause?: unknown): GatewayError {
  return new GatewayError("facilitator_unavailable", `${why} Nothing was paid back: try again.`, {
    cause,
    headers: { "retry-after": "2" },
  });
}

function refused(error: string): GatewayError {
  return new GatewayError("payment_invalid", error);
}
