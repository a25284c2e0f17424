import { randomUUID } from "node:crypto";
import * as z from "zod";
import type { OwnScheme, SettlablePayload } from "../../x402/methods/method.ts";
import { loose } from "../../x402/methods/payload-values.ts";
import { CHANNELS_CONTRACT, DEPOSIT_COLLECTOR } from "./hashes.ts";

/** Time after which a repeated claim or refund gets a new transaction, because the first transaction may have been dropped. */
const AGAIN_MS = 600_000;
/** Seconds until the transaction of a claim, a settlement or a refund expires. */
const VALID_SECS = 3_600;

const deposit = z.looseObject({
  type: z.literal("deposit"),
  channelConfig: z.looseObject({ payer: loose.address }),
  deposit: z.looseObject({
    amount: loose.uint,
    authorization: z.union([
      z.strictObject({ permit2Authorization: z.looseObject({ deadline: loose.uint }) }),
      z.strictObject({ erc3009Authorization: z.looseObject({ validBefore: loose.uint }) }),
    ]),
  }),
});

const refund = z.looseObject({
  type: z.literal("refund"),
  channelConfig: z.looseObject({ payer: loose.address }),
  amount: loose.uint,
  refundNonce: loose.uint,
});

const claim = z.looseObject({
  type: z.literal("claim"),
  claims: z
    .array(
      z.looseObject({
        voucher: z.looseObject({ channel: z.looseObject({ receiverAuthorizer: loose.address }) }),
      }),
    )
    .min(1),
});

const settle = z.looseObject({ type: z.literal("settle"), receiver: loose.address, token: loose.address });

/** Payloads that a seller has sent to a facilitator. */
const sent = z.discriminatedUnion("type", [deposit, refund, claim, settle]);

/** The scheme `batch-settlement` of x402. */
export const OWN_SCHEME: OwnScheme = {
  name: "batch-settlement",
  async load(signer, options) {
    const { BatchSettlementEvmScheme } = await import("@x402/evm/batch-settlement/facilitator");
    type Parts = ConstructorParameters<typeof BatchSettlementEvmScheme>;
    return new BatchSettlementEvmScheme(...([signer, undefined, options] as Parts));
  },
};

/** Reports whether only a seller sends such a payload: a claim, or a settlement of claims. */
export function isSent(payload: object): boolean {
  const { type } = payload as { readonly type?: unknown };
  return type === "claim" || type === "settle";
}

/** Reads the payloads that sellers send to facilitators. */
export function readSettlable(payload: object, scheme: string): SettlablePayload | undefined {
  if (scheme !== OWN_SCHEME.name) return undefined;
  const { data } = sent.safeParse(payload);
  if (data === undefined) return undefined;
  if (data.type === "deposit") {
    const { amount, authorization } = data.deposit;
    const [to, validBefore] =
      "permit2Authorization" in authorization
        ? [CHANNELS_CONTRACT, authorization.permit2Authorization.deadline]
        : [DEPOSIT_COLLECTOR, authorization.erc3009Authorization.validBefore];
    const reference = JSON.stringify(payload);
    return { from: data.channelConfig.payer, validBefore, moves: { to, amount }, reference };
  }
  const now = Date.now();
  const validBefore = String(Math.floor(now / 1_000) + VALID_SECS);
  const again = JSON.stringify([payload, Math.floor(now / AGAIN_MS)]);
  switch (data.type) {
    case "refund":
      return { from: data.channelConfig.payer, validBefore, moves: "none", reference: again };
    case "claim": {
      const [{ voucher } = {}] = data.claims;
      const from = voucher?.channel.receiverAuthorizer ?? "";
      return { from, validBefore, moves: "none", reference: again };
    }
    // Two settlements with equal payloads need two transactions, because each moves the money that was claimed since
    // the previous settlement.
    case "settle":
      return { from: data.receiver, validBefore, moves: "none", reference: randomUUID() };
  }
}
