import { hash } from "node:crypto";
import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import { isObject } from "../../core/objects.ts";
import type { SignedFields } from "../../x402/methods/method.ts";
import { address, decimal, lowerCase, signature } from "../../x402/methods/payload-values.ts";
import type { ChannelConfig } from "./hashes.ts";

const MAX_U128 = 2n ** 128n - 1n;

const amount = decimal.refine((digits) => BigInt(digits) <= MAX_U128, "expected an amount below 2^128");
const word = z.string().regex(/^0x[0-9a-fA-F]{64}$/, "expected 0x and 64 hex digits");

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

const depositPayload = z
  .object({
    type: z.literal("deposit"),
    channelConfig,
    voucher,
    deposit: z
      .object({
        amount,
        authorization: z
          .object({
            erc3009Authorization: z
              .object({ validAfter: decimal, validBefore: decimal, salt: word, signature })
              .strict(),
          })
          .strict(),
      })
      .strict(),
  })
  .strict();

const refundPayload = z
  .object({ type: z.literal("refund"), channelConfig, voucher, amount: amount.optional() })
  .strict();

type RawVoucher = z.output<typeof voucherPayload>;
type RawDeposit = z.output<typeof depositPayload>;

/** A voucher that the payer of a channel signed: alone, with a deposit, or for a refund. */
export interface Voucher {
  readonly config: ChannelConfig;
  /** Lower case. */
  readonly channelId: string;
  /** All that was and is paid from the channel, in token units. */
  readonly cumulative: bigint;
  readonly signature: `0x${string}`;
  readonly deposit:
    | {
        /** Token units. */
        readonly amount: bigint;
        readonly validAfter: bigint;
        readonly validBefore: bigint;
        readonly salt: string;
      }
    | undefined;
}

function toVoucher({ channelConfig, voucher, ...payload }: RawVoucher | RawDeposit): Voucher {
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = channelConfig;
  const { deposit } = payload as Partial<RawDeposit>;
  const authorization = deposit?.authorization.erc3009Authorization;
  return {
    config: {
      payer: lowerCase(payer),
      payerAuthorizer: lowerCase(payerAuthorizer),
      receiver: lowerCase(receiver),
      receiverAuthorizer: lowerCase(receiverAuthorizer),
      token: lowerCase(token),
      withdrawDelay,
      salt: lowerCase(salt),
    },
    channelId: lowerCase(voucher.channelId),
    cumulative: BigInt(voucher.maxClaimableAmount),
    signature: lowerCase(voucher.signature),
    deposit: deposit &&
      authorization && {
        amount: BigInt(deposit.amount),
        validAfter: BigInt(authorization.validAfter),
        validBefore: BigInt(authorization.validBefore),
        salt: lowerCase(authorization.salt),
      },
  };
}

/** Payloads that pay: a voucher, alone or with a deposit. */
export const payload = z
  .discriminatedUnion("type", [voucherPayload, depositPayload])
  .transform((raw): SignedFields => {
    const voucher = toVoucher(raw);
    const { config, channelId, cumulative, deposit } = voucher;
    const nonce = [channelId, cumulative, ...(deposit ? [deposit.salt] : [])].join(":");
    const parts = [nonce, voucher.signature, ...Object.values(config), ...Object.values(deposit ?? {})];
    return {
      from: config.payer,
      to: config.receiver,
      value: cumulative,
      validAfter: deposit?.validAfter ?? 0n,
      validBefore: deposit?.validBefore ?? 0n,
      nonce,
      settler: undefined,
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
  /** Token units. Undefined: all that is left. */
  readonly amount: bigint | undefined;
}

/** Reports whether a payload asks for a refund. */
export function asksForRefund(payload: unknown): boolean {
  return isObject(payload) && payload.type === "refund";
}

/** @throws GatewayError `bad_request` for a request for a refund that is malformed */
export function readRefund(payload: unknown): RefundRequest {
  const { data, error } = refundPayload.safeParse(payload);
  if (data === undefined) {
    const [issue] = error.issues;
    const at = issue?.path.join(".") || "payload";
    throw new GatewayError(
      "bad_request",
      `The request for a refund is malformed at ${at}: ${issue?.message}.`,
    );
  }
  const { amount } = data;
  const { deposit: _, ...voucher } = toVoucher({ ...data, type: "voucher" });
  return { ...voucher, amount: amount === undefined ? undefined : BigInt(amount) };
}
