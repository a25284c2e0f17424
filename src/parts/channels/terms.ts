import { GatewayError } from "../../core/errors.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import type { Contribution, Terms } from "../../x402/purchase/terms.ts";
import { storableSeconds } from "../../x402/purchase/verification.ts";
import { correction } from "./correction.ts";
import type { ChannelConfig } from "./hashes.ts";
import { type LostVouchers, namedPrice } from "./lost-vouchers.ts";
import { requestIn } from "./method.ts";
import type { NewestVouchers } from "./newest-vouchers.ts";
import { journalledVoucher, type Voucher, voucherOf } from "./payload.ts";
import type { ChannelLedger } from "./store/ledger.ts";
import { AMOUNT_MISMATCH } from "./store/refusal-texts.ts";
import { CHANNEL_METHOD, type ChannelRow } from "./store/row.ts";
import { mismatchOf, standing } from "./store/rules.ts";

interface Parts {
  readonly ledger: ChannelLedger;
  readonly journal: Pick<PaymentJournal, "findPaymentByFingerprint">;
  readonly lost: LostVouchers;
  /** Adds the channel of a payment to the store, if its chain has the deposit already. */
  readonly adopt: (payment: SignedPayment) => Promise<ChannelRow | undefined>;
  /** Compares a channel with its chain, so that a deposit from another account is counted. */
  readonly refresh: (row: ChannelRow) => Promise<void>;
  /** Reports whether the configuration has the key that signs the claims of a channel. */
  readonly canSign: (config: ChannelConfig) => boolean;
  /** Undefined if other processes accept vouchers with the same store. */
  readonly newest: NewestVouchers | undefined;
}

interface Checked extends Parts {
  /** Vouchers that the known deposits of their channels do not cover. */
  readonly uncovered: WeakSet<Voucher>;
}

/** Compares vouchers with channels whose sums are up to date, and uses each deposit once. */
export function channelTerms(parts: Parts): Terms {
  const uncovered = new WeakSet<Voucher>();
  return {
    async recognise(payment) {
      return payment.method.name === CHANNEL_METHOD ? recognised(payment, { ...parts, uncovered }) : payment;
    },
    async findBound(payment) {
      if (payment.method.name !== CHANNEL_METHOD) return [];
      const { channelId, cumulative, signature } = voucherOf(payment);
      const made = await parts.ledger.findPaymentsOfVoucher(channelId, String(cumulative));
      return made.filter((one) => journalledVoucher(one).signature === signature);
    },
    checks: [
      {
        name: "channel",
        before: "resend",
        refusals: ["payment_mismatch"],
        async run({ payment }) {
          if (payment.method.name !== CHANNEL_METHOD) return undefined;
          return useOfDeposit(voucherOf(payment), parts.ledger);
        },
      },
      {
        name: "open channel",
        before: "verification",
        refusals: ["payment_mismatch"],
        async run({ payment }) {
          if (payment.method.name === CHANNEL_METHOD) await checkOpen(payment, { ...parts, uncovered });
          return undefined;
        },
      },
      {
        name: "newest voucher",
        before: "settlement",
        refusals: [],
        run({ payment }) {
          if (payment.method.name !== CHANNEL_METHOD) return undefined;
          const { channelId, cumulative, deposit } = voucherOf(payment);
          const leave = parts.newest?.begin(channelId, cumulative, deposit !== undefined);
          return leave && { leave };
        },
      },
    ],
  };
}

/**
 * A voucher whose call was charged back is unused again, so it makes a new payment. A voucher below the base remains
 * its earlier payment. An amount that was charged back below the base is a credit.
 */
async function recognised(payment: SignedPayment, parts: Checked): Promise<SignedPayment> {
  const { ledger, journal, lost, newest, uncovered } = parts;
  const voucher = voucherOf(payment);
  const { channelId, cumulative, deposit } = voucher;
  const price = namedPrice(payment) ?? 0n;
  if (deposit === undefined && newest?.isNext(channelId, cumulative, price))
    return { ...payment, isNew: true };
  const version = newest?.version ?? 0;
  const row = await upToDate(channelId, cumulative, ledger);
  if (row === undefined || standing(row) + price > BigInt(row.balance)) uncovered.add(voucher);
  if (row === undefined) return payment;
  newest?.note(row, version);
  await lost.look(row, payment);
  const first = await firstOf(payment, row, ledger);
  if (first !== undefined) return as(payment, first);
  const original = as(payment, (await firstWithDeposit(payment, row, ledger)) ?? payment);
  if (deposit !== undefined) return original;
  if (cumulative > BigInt(row.signed)) return { ...payment, isNew: true };
  const returned = await ledger.countReturned(channelId, String(cumulative));
  if (returned === 0) return original;
  const next = inRound(payment, returned);
  if (cumulative > BigInt(row.base) || (await journal.findPaymentByFingerprint(next.fingerprint)))
    return next;
  return returned === 1 ? original : inRound(payment, returned - 1);
}

/** Fields by which the journal identifies a payment. */
type Identity = Pick<SignedPayment, "nonce" | "fingerprint">;

/**
 * Finds the payment that the newest voucher of a channel has made for the same request. If the answer was lost, the payer may
 * send the voucher with another deposit, or without a deposit.
 */
async function firstOf(
  payment: SignedPayment,
  row: ChannelRow,
  ledger: ChannelLedger,
): Promise<Identity | undefined> {
  const { cumulative, signature } = voucherOf(payment);
  const isNewest = [row.base, row.signed].every((sum) => BigInt(sum) === cumulative);
  if (!isNewest || row.base_call === null || row.signature !== signature) return undefined;
  const first = await ledger.findPaymentOfCall(row.base_call);
  return first && isOfRequest(first, payment) ? first : undefined;
}

/** Finds the payment that a voucher up to the base has made for the same request together with its deposit. */
async function firstWithDeposit(
  payment: SignedPayment,
  row: ChannelRow,
  ledger: ChannelLedger,
): Promise<Identity | undefined> {
  const { channelId, cumulative, signature } = voucherOf(payment);
  if (cumulative > BigInt(row.base)) return undefined;
  const first = await ledger.findPaymentOfDeposit(channelId, String(cumulative));
  if (first === undefined || !isOfRequest(first, payment)) return undefined;
  return journalledVoucher(first).signature === signature ? first : undefined;
}

/** Reports whether an earlier payment was for the request of a payment. */
function isOfRequest({ nonce }: Pick<Identity, "nonce">, payment: SignedPayment): boolean {
  return nonce.split(":").includes(requestIn(payment.nonce));
}

function as(payment: SignedPayment, { nonce, fingerprint }: Identity): SignedPayment {
  return { ...payment, nonce, fingerprint };
}

/** @param round number of calls that were bought with the same voucher and charged back before, at least 1 */
function inRound(payment: SignedPayment, round: number): SignedPayment {
  const { nonce, fingerprint } = payment;
  return { ...payment, nonce: `${nonce}:${round}`, fingerprint: `${fingerprint}:${round}` };
}

/** Finds a channel. Its charges are counted first if the voucher may depend on them. */
async function upToDate(
  channelId: string,
  cumulative: bigint,
  ledger: ChannelLedger,
): Promise<ChannelRow | undefined> {
  const row = await ledger.findChannel(channelId);
  if (row === undefined || (row.deposits === 0 && cumulative > BigInt(row.signed))) return row;
  for (const charges of await ledger.listUncounted({ channelId, limit: 100 }))
    await ledger.countCharges(channelId, charges);
  return ledger.findChannel(channelId);
}

/**
 * Checks a payment before its deposit is verified, because a facilitator that refuses the deposit does not say which sum is right.
 * @throws GatewayError `payment_mismatch`
 */
async function checkOpen(
  payment: SignedPayment,
  { canSign, ledger, adopt, refresh, uncovered }: Checked,
): Promise<void> {
  const voucher = voucherOf(payment);
  const { config, channelId, cumulative, deposit } = voucher;
  if (!canSign(config))
    throw new GatewayError(
      "payment_mismatch",
      "The seller has no key for the receiverAuthorizer of the channel. Nothing was charged: ask for a new offer, and open a channel by it.",
    );
  if (deposit === undefined && !uncovered.has(voucher)) return;
  const row = await ledger.findChannel(channelId);
  if (deposit === undefined) {
    await (row === undefined ? adopt(payment) : refresh(row));
    return;
  }
  const adopted = row === undefined ? await adopt(payment) : undefined;
  // The deposit was already made, so the payer has to sign the voucher alone.
  if (adopted !== undefined) throw correction(mismatchOf(adopted));
  const price = namedPrice(payment);
  if (row?.status === "open" && price !== undefined && cumulative !== BigInt(row.base) + price)
    throw correction(mismatchOf(row));
}

/**
 * Returns the nonce that a deposit uses up. A deposit is made only once, so a voucher can buy only one call together
 * with its deposit, even if that call fails.
 */
async function useOfDeposit(
  { channelId, deposit }: Voucher,
  ledger: ChannelLedger,
): Promise<Contribution | undefined> {
  if (deposit === undefined) return undefined;
  const { id, validBefore } = deposit;
  const row = await ledger.findChannel(channelId);
  return {
    nonce: {
      nonce: { key: `deposit ${channelId} ${id}`, expiresAt: storableSeconds(validBefore) },
      refusal: () =>
        correction(row === undefined ? { error: AMOUNT_MISMATCH, channel: undefined } : mismatchOf(row)),
    },
  };
}
