import { type ChannelConfig, DEPOSIT_COLLECTOR, depositNonce } from "../../../src/parts/channels/hashes.ts";
import type { Act, Authorization, Chain } from "./chain.ts";
import { type ChannelClaim, idOf } from "./channel-contract.ts";
import type { Server, WireAnswer } from "./network.ts";
import type { Simulation } from "./simulation.ts";

const SCHEME = "batch-settlement";
const PATIENCE_MS = 20_000;
const LOOK_MS = 500;
/** A deposit that is sent as late as this has ended. */
const MOST_LATE_MS = 60_000;

interface WireClaim {
  readonly voucher: { readonly channel: ChannelConfig; readonly maxClaimableAmount: string };
  readonly signature: string;
  readonly totalClaimed: string;
}

/** Payloads that gateways have a facilitator send. */
export type SentPayload =
  | {
      readonly type: "deposit";
      readonly channelConfig: ChannelConfig;
      readonly deposit: {
        readonly amount: string;
        readonly authorization: {
          readonly erc3009Authorization: { readonly validBefore: string; readonly salt: string };
        };
      };
    }
  | { readonly type: "claim"; readonly claims: readonly WireClaim[] }
  | { readonly type: "settle"; readonly receiver: string; readonly token: string }
  | {
      readonly type: "refund";
      readonly channelConfig: ChannelConfig;
      readonly amount: string;
      readonly refundNonce: string;
      readonly claims: readonly WireClaim[];
    };

/** Reads the permission that a deposit uses. */
function depositIn(payload: SentPayload): Authorization | undefined {
  if (payload.type !== "deposit") return undefined;
  const { channelConfig, deposit } = payload;
  const { validBefore, salt } = deposit.authorization.erc3009Authorization;
  return {
    payer: channelConfig.payer,
    nonce: depositNonce(idOf(channelConfig), salt),
    to: DEPOSIT_COLLECTOR,
    amount: BigInt(deposit.amount),
    validBefore: Number(validBefore),
  };
}

/** A facilitator that sends deposits, claims, settlements and refunds of channels, lies, and sends late and twice. */
export function channelFacilitator(
  run: Simulation,
  chain: Chain,
  {
    name,
    network,
    onAsked,
  }: {
    readonly name: string;
    readonly network: string;
    /** Hears what it is asked to send. */
    readonly onAsked: (payload: SentPayload) => void;
  },
): Server {
  const faultRate = run.pick(`faults of ${name}`, [0, 0.05, 0.3]);
  const lies = run.random(`lies of ${name}`) < 0.5;
  const goesWrong = (what: string, part = 1) => run.fault(`${name} ${what}`, faultRate * part);
  const tellsALie = (what: string) => lies && goesWrong(what, 2);

  function settle(payload: SentPayload, answer: (answer: WireAnswer) => void): void {
    const authorization = depositIn(payload);
    const act = actOf(chain, payload);
    const yes = (transaction: string) => answer(json(200, { success: true, transaction, network }));
    const no = (errorReason: string) =>
      answer(json(200, { success: false, errorReason, transaction: "", network }));
    if (goesWrong("says no and sends nothing")) {
      no("busy");
      return;
    }
    if (goesWrong("stalls before it sends")) {
      if (goesWrong("sends late", 4))
        chain.sendLater(authorization, run.random(`${name} sends late`) * MOST_LATE_MS, act);
      return;
    }
    if (tellsALie("says yes and sends nothing")) {
      yes(`0x${"e".repeat(64)}`);
      return;
    }
    const transaction = chain.send(authorization, act);
    if (goesWrong("sends twice"))
      chain.sendLater(authorization, run.delay(`${name} sends again`, 1, 30_000), act);
    if (goesWrong("stalls after it has sent")) return;
    if (tellsALie("sends and says no")) {
      no("transaction_failed");
      return;
    }
    if (goesWrong("says yes before the chain does")) {
      yes(transaction);
      return;
    }
    const awaitMined = (leftMs: number): void => {
      const found = chain.find(transaction);
      if (found === undefined && leftMs > 0) run.at(LOOK_MS, run.world, () => awaitMined(leftMs - LOOK_MS));
      else if (found?.mined.isSuccess) yes(transaction);
      else no("transaction_failed");
    };
    awaitMined(PATIENCE_MS);
  }

  return ({ url, body }, answer) => {
    if (url.pathname.endsWith("/supported"))
      return answer(
        json(200, { kinds: [{ x402Version: 2, scheme: SCHEME, network }], extensions: [], signers: {} }),
      );
    const { payload } = (JSON.parse(body) as { paymentPayload: { payload: SentPayload } }).paymentPayload;
    if (payload.type === undefined) return answer(json(400, { error: "unsupported_scheme" }));
    if (url.pathname.endsWith("/verify")) {
      const { payer } = depositIn(payload) ?? {};
      return answer(json(200, { isValid: true, payer }));
    }
    onAsked(payload);
    run.say(`${name} is asked to send: ${actOf(chain, payload).name}`);
    settle(payload, answer);
  };
}

function actOf({ channels }: Chain, payload: SentPayload): Act {
  switch (payload.type) {
    case "deposit":
      return channels.deposit(payload.channelConfig, BigInt(payload.deposit.amount));
    case "claim":
      return channels.claim(payload.claims.map(claimOf));
    case "settle":
      return channels.settle(payload.receiver.toLowerCase(), payload.token.toLowerCase());
    case "refund": {
      const { channelConfig, amount, refundNonce, claims } = payload;
      return channels.refund(channelConfig, BigInt(amount), Number(refundNonce), claims.map(claimOf));
    }
  }
}

export function claimOf({ voucher, signature, totalClaimed }: WireClaim): ChannelClaim {
  return {
    ...{ config: voucher.channel, signature },
    ...{ signed: BigInt(voucher.maxClaimableAmount), totalClaimed: BigInt(totalClaimed) },
  };
}

function json(status: number, value: unknown): WireAnswer {
  return { status, headers: { "content-type": "application/json" }, text: JSON.stringify(value) };
}
