import { hash } from "node:crypto";
import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import { isObject } from "../../core/objects.ts";
import type { SignedFields } from "../../x402/methods/method.ts";
import { address, lowerCase, signature } from "../../x402/methods/payload-values.ts";
import { amount, type Deposit, depositPayload, inLowerCase, toDeposit, word } from "./deposit.ts";
import type { ChannelConfig } from "./hashes.ts";

const channelConfig = z
  .object({
    payer: address,
    payerAuthorizer: address,
    receiver: address,
    receiverAuthorizer: address,
    token: address,
    withdrawDelay: z
      .number()
      .int()
      .min(0)
      .max(2 ** 40 - 1),
    salt: word,
  })
  .strict();

const voucher = z.object({ channelId: word, maxClaimableAmount: amount, signature }).strict();

const voucherPayload = z.object({ type: z.literal("voucher"), channelConfig, voucher }).strict();

const payloadWithDeposit = z
  .object({ type: z.literal("deposit"), channelConfig, voucher, deposit: depositPayload })
  .strict();

const refundPayload = z
  .object({ type: z.literal("refund"), channelConfig, voucher, amount: amount.optional() })
  .strict();

type RawVoucher = z.output<typeof voucherPayload>;
type RawDeposit = z.output<typeof payloadWithDeposit>;

/** Signed voucher of a channel's payer. It comes by itself, with a deposit, or with a request for a refund. */
export interface Voucher {
  readonly config: ChannelConfig;
  /** Lower case. */
  readonly channelId: string;
  /** Sum of all payments from the channel, including this payment, in token units. */
  readonly cumulative: bigint;
  readonly signature: `0x${string}`;
  readonly deposit: Deposit | undefined;
}

function toVoucher({ channelConfig, voucher, ...payload }: RawVoucher | RawDeposit): Voucher {
  const { deposit } = payload as Partial<RawDeposit>;
  return {
    config: inLowerCase(channelConfig),
    channelId: lowerCase(voucher.channelId),
    cumulative: BigInt(voucher.maxClaimableAmount),
    signature: lowerCase(voucher.signature),
    deposit: deposit && toDeposit(deposit),
  };
}

/** Payloads that pay: a voucher, alone or with a deposit. */
export const payload = z
  .discriminatedUnion("type", [voucherPayload, payloadWithDeposit])
  .transform((raw): SignedFields => {
    const voucher = toVoucher(raw);
    const { config, channelId, cumulative, deposit } = voucher;
    const { amount, validAfter, validBefore, id } = deposit ?? {};
    const nonce = [channelId, cumulative, ...(deposit ? [id] : [])].join(":");
    const deposited = deposit ? [amount, validAfter, validBefore, id] : [];
    const parts = [nonce, voucher.signature, ...Object.values(config), ...deposited];
    return {
      from: config.payer,
      to: config.receiver,
      value: cumulative,
      validAfter: validAfter ?? 0n,
      validBefore: validBefore ?? 0n,
      nonce,
      fingerprint: hash("sha256", parts.join()),
      details: voucher,
    };
  });

/** Returns the voucher of a payment. */
export function voucherOf({ details }: Pick<SignedFields, "details">): Voucher {
  return details as Voucher;
}

/** Reads the voucher of a journalled payment. */
export function journalledVoucher({ payload }: { readonly payload: string }): Voucher {
  return toVoucher((JSON.parse(payload) as { readonly payload: RawVoucher | RawDeposit }).payload);
}

/** A payer's request to pay the rest of a channel back, or a part of it. */
export interface RefundRequest extends Omit<Voucher, "deposit"> {
  /** Amount in token units; undefined for the whole rest. */
  readonly amount: bigint | undefined;
  /**
   * Identifies the request in its channel. The payload has no nonce, so that a request for the same amount at the same sum of the
   * channel is the same request, even if it was signed again.
   */
  readonly id: string;
}

/** Reports whether a payload requests a refund. */
export function asksForRefund(payload: unknown): boolean {
  return isObject(payload) && payload.type === "refund";
}

/** @throws GatewayError `invalid_payment` for a malformed request for a refund */
export function readRefund(payload: unknown): RefundRequest {
  const { data, error } = refundPayload.safeParse(payload);
  if (data === undefined) {
    const [issue] = error.issues;
    const at = issue?.path.join(".") || "payload";
    throw new GatewayError(
      "invalid_payment",
      `The request for a refund is malformed at ${at}: ${issue?.message}.`,
    );
  }
  const { amount } = data;
  const { deposit: _, ...voucher } = toVoucher({ ...data, type: "voucher" });
  const units = amount === undefined ? undefined : BigInt(amount);
  return { ...voucher, amount: units, id: `${voucher.cumulative}:${units ?? "all"}` };
}
