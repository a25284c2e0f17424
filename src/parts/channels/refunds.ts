import { setTimeout as sleep } from "node:timers/promises";
import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest, JobRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import { decodeHeader, encodeHeader } from "../../x402/wire/payment-header.ts";
import { correction } from "./correction.ts";
import { isSigned } from "./method.ts";
import type { NetworkChannels } from "./network-channels.ts";
import { asksForRefund, readRefund } from "./payload.ts";
import type { ChannelLedger } from "./store/ledger.ts";
import { refundOf } from "./store/refund-rules.ts";
import { BAD_SIGNATURE, NOT_FOUND, NOTHING_TO_REFUND, REFUND_WAITS } from "./store/refusal-texts.ts";
import type { ChannelRow } from "./store/row.ts";
import { mismatchOf } from "./store/rules.ts";

const HEADER = "payment-signature";
/** Longest time that a request waits for its refund, and the time between two checks. */
const WAIT_MS = 30_000;
const LOOK_MS = 250;
/** Longest time that a refund waits for a claim. */
const CLAIM_MS = 10_000;

/**
 * Finds the payload of a request for a refund, which is sent in place of a payment. @returns undefined for any other request
 */
export function refundOfRequest(request: JobRequest): unknown {
  const [header, ...others] = request.headerValues(HEADER);
  if (header === undefined || others.length > 0) return undefined;
  try {
    const { payload } = decodeHeader(header) as { readonly payload?: unknown };
    return asksForRefund(payload) ? payload : undefined;
  } catch {
    return undefined;
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

  /** @throws GatewayError with the reason why nothing is paid back, or not yet */
  async answer(_request: HttpRequest, payload: unknown): Promise<HttpResponse> {
    const ledger = this.#ledger;
    const asked = readRefund(payload);
    const { channelId } = asked;
    const found = await ledger.findChannel(channelId);
    const network = found && this.#networkOf(found);
    if (found === undefined || network === undefined) throw refused(NOT_FOUND);
    if (!(await isSigned(asked, found.network))) throw refused(BAD_SIGNATURE);
    if (!network.canSign(found)) throw unavailable("The seller has no key for the channel now.");
    // The charges of failed calls are paid back together with the rest.
    await network.count(channelId);
    const { row, chain } = await this.#lookAfterClaim(network, found).catch((cause: unknown) => {
      throw cause instanceof GatewayError
        ? cause
        : unavailable("The channel's chain does not answer now.", cause);
    });
    if (asked.cumulative < BigInt(row.charged)) throw correction(mismatchOf(row));
    const decision = await ledger.beginChannelRefund(channelId, { chain, amount: asked.amount?.toString() });
    if (decision.kind !== "refunding")
      throw refused(decision.kind === "busy" ? REFUND_WAITS : NOTHING_TO_REFUND);
    return answerOf(await this.#paid(network, decision.row));
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
  async #paid(network: NetworkChannels, row: ChannelRow): Promise<ChannelRow> {
    const endsAt = performance.now() + WAIT_MS;
    const { nonce } = refundOf(row) ?? {};
    while (performance.now() < endsAt) {
      // If the chain does not respond, it may respond to the next check.
      const paid = await network.sendRefund(row).catch((error: unknown) => {
        if (error instanceof GatewayError) throw error;
        return undefined;
      });
      if (paid !== undefined) return paid;
      // Another process may have ended the refund.
      const now = await this.#ledger.findChannel(row.channel_id);
      const refund = now && refundOf(now);
      if (now !== undefined && refund?.nonce === nonce && refund?.state === "done") return now;
      await sleep(LOOK_MS);
    }
    throw new GatewayError(
      "settlement_unknown",
      "The refund is being sent. Request it again later: it is paid only once.",
      { headers: { "retry-after": "5" } },
    );
  }
}

function answerOf(row: ChannelRow): HttpResponse {
  const { channel_id: channelId, balance, claimed, base, config, network } = row;
  const { amount = "0", transaction = "", nonce = "0" } = refundOf(row) ?? {};
  const { payer } = JSON.parse(config) as { readonly payer: string };
  const settlement = {
    ...{ success: true, payer, transaction, amount },
    network,
    extra: {
      channelState: {
        ...{ channelId, balance, totalClaimed: claimed, chargedCumulativeAmount: base },
        ...{ withdrawRequestedAt: row.withdraw_at ?? 0, refundNonce: String(BigInt(nonce) + 1n) },
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
