import { expect, test } from "vitest";
import { channelIdOf, voucherDigest } from "../../../src/parts/channels/hashes.ts";
import { CHANNELS } from "../../../src/parts/channels/method.ts";
import { asksForRefund, readRefund } from "../../../src/parts/channels/payload.ts";
import { BAD_SIGNATURE, LOW_DEPOSIT } from "../../../src/parts/channels/store/refusal-texts.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import type { Offer } from "../../../src/x402/wire/offer.ts";
import { toSignedPayment } from "../../../src/x402/wire/payment-header.ts";
import { accounts, newAccount } from "../../helpers/accounts.ts";
import { highS } from "../../helpers/caller-claim.ts";

const CHAIN = 84_532;
const NETWORK = `eip155:${CHAIN}`;
const { payer, payTo, stranger } = accounts;
const authorizer = newAccount();
const ASSET = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const ZERO = `0x${"0".repeat(40)}`;
const ZERO_WORD = `0x${"0".repeat(64)}`;
const lower = (text: string) => text.toLowerCase();

const offer = {
  ...{ scheme: "batch-settlement", amount: "1000", ttlSecs: 300, priceWei: 0n },
  job: { serviceId: 1n, jobIndex: 0 },
  token: {
    network: NETWORK,
    asset: ASSET,
    payTo: payTo.address,
    transferMethod: "channel",
    symbol: "USDC",
    decimals: 6,
  },
  extra: { receiverAuthorizer: authorizer.address, withdrawDelay: 86_400, minDeposit: "10000" },
} as unknown as Offer;

/** Signs a voucher of a channel. */
async function pay({
  signer = payer,
  cumulative = 1_000n,
  ...more
}: Record<string, unknown> & {
  readonly signer?: typeof payer;
  readonly cumulative?: bigint;
} = {}) {
  const channelConfig = {
    ...{ payer: payer.address, payerAuthorizer: payer.address, receiver: payTo.address },
    ...{
      receiverAuthorizer: authorizer.address,
      token: ASSET,
      withdrawDelay: 86_400,
      salt: `0x${"00".repeat(32)}`,
    },
    ...more,
  };
  const { withdrawDelay, ...texts } = channelConfig;
  const spelled = Object.fromEntries(
    Object.entries(texts).map(([key, value]) => [key, lower(value as string)]),
  );
  const channelId = channelIdOf(CHAIN, { ...spelled, withdrawDelay } as Parameters<typeof channelIdOf>[1]);
  const signature = await signer.sign({ hash: voucherDigest(CHAIN, channelId, cumulative) });
  const voucher = { channelId, maxClaimableAmount: String(cumulative), signature };
  return { type: "voucher", channelConfig, voucher };
}

const read = (payload: object) =>
  toSignedPayment(
    { x402Version: 2, accepted: { scheme: "batch-settlement", network: NETWORK }, payload } as never,
    "PAYMENT-SIGNATURE",
    new Methods([CHANNELS]),
  );
const check = async (payload: object) => CHANNELS.check?.(read(payload), offer);

test("A voucher that the channel's key signed pays, and needs no facilitator", async () => {
  const payment = read(await pay());
  expect(CHANNELS.pays(payment, offer)).toBe(true);
  expect(await CHANNELS.check?.(payment, offer)).toMatchObject({
    settlement: { amount: "", extra: { chargedAmount: "1000" } },
  });
  expect(payment.from).toBe(lower(payer.address));
});

test("A session key signs for its payer's channel, and no other key does", async () => {
  const session = newAccount();
  const payload = await pay({ payerAuthorizer: session.address, signer: session });
  expect(await check(payload)).toHaveProperty("settlement");
  expect(await CHANNELS.recoverSigner(read(payload), offer.token)).toBe(lower(payer.address));
  const forged = await pay({ payerAuthorizer: session.address, signer: stranger });
  expect(await check(forged)).toEqual({ invalid: BAD_SIGNATURE });
  expect(await CHANNELS.recoverSigner(read(forged), offer.token)).toBeUndefined();
});

test("A voucher whose signature contracts do not take is refused, because it could not be claimed", async () => {
  const payload = await pay();
  const { signature } = payload.voucher;
  const lowV = `${signature.slice(0, -2)}${signature.endsWith("1b") ? "00" : "01"}`;
  for (const other of [highS(signature), lowV]) {
    const malleated = { ...payload, voucher: { ...payload.voucher, signature: other } };
    expect(await check(malleated)).toEqual({ invalid: BAD_SIGNATURE });
  }
});

test("A voucher of one channel is not taken for another one", async () => {
  const [one, other] = [await pay(), await pay({ salt: `0x${"01".repeat(32)}` })];
  expect(await check({ ...one, channelConfig: other.channelConfig })).toMatchObject({
    invalid: expect.any(String),
  });
});

test("A channel without a key that signs vouchers is refused", async () => {
  expect(await check(await pay({ payerAuthorizer: ZERO }))).toMatchObject({
    invalid: expect.stringMatching("payerAuthorizer"),
  });
});

test.each([
  { receiver: stranger.address },
  { receiverAuthorizer: stranger.address },
  { token: stranger.address },
  { withdrawDelay: 900 },
  { cumulative: 999n },
])(
  "A voucher with $receiver $receiverAuthorizer $token $withdrawDelay $cumulative does not pay the offer",
  async (more) => {
    expect(CHANNELS.pays(read(await pay(more)), offer)).toBe(false);
  },
);

test("A payment is known by its voucher and its request", async () => {
  const payment = read(await pay());
  const [one, same, other] = ["a", "a", "b"].map((request) => CHANNELS.bind?.(payment, request));
  expect(one).toEqual(same);
  expect(one?.fingerprint).not.toBe(other?.fingerprint);
  expect(one?.nonce).not.toBe(other?.nonce);
});

test("A request for a refund is not a payment, and a payment is not a request for a refund", async () => {
  const payload = await pay();
  expect(asksForRefund(payload)).toBe(false);
  for (const amount of ["-1", "0x10"])
    expect(() => readRefund({ ...payload, type: "refund", amount })).toThrow(
      expect.objectContaining({
        code: "invalid_payment",
        message: expect.stringContaining("malformed at amount"),
      }),
    );
  expect(readRefund({ ...payload, type: "refund", amount: "5" })).toMatchObject({
    amount: 5n,
    cumulative: 1_000n,
  });
  expect(() => read({ ...payload, type: "refund" })).toThrow("payload is not");
});

/** Makes the payload of a deposit by Permit2, with other fields of its permit. */
async function permit(more: object = {}, amount = "10000") {
  const payload = await pay();
  const permit2Authorization = {
    from: payer.address,
    permitted: { token: ASSET, amount },
    spender: "0x4020425FAf3B746C082C2f942b4E5159887B0005",
    nonce: "7",
    deadline: "9",
    witness: { channelId: payload.voucher.channelId },
    signature: `0x${"11".repeat(65)}`,
    ...more,
  };
  return {
    ...payload,
    type: "deposit",
    deposit: { amount: "10000", authorization: { permit2Authorization } },
  };
}
const byPermit2 = { ...offer, extra: { ...offer.extra, assetTransferMethod: "permit2" } };

test("A deposit by Permit2 pays an offer that asks for one, and its nonce and deadline are the permit's", async () => {
  const payment = read(await permit());
  expect(CHANNELS.pays(payment, byPermit2)).toBe(true);
  expect(CHANNELS.pays(payment, offer)).toBe(false);
  expect(await CHANNELS.check?.(payment, byPermit2)).toBe("unpaid");
  expect(payment).toMatchObject({ validBefore: 9n, nonce: expect.stringMatching(/:1000:7$/) });
  const erc3009Authorization = { validAfter: "0", validBefore: "9", salt: ZERO_WORD, signature: "0x" };
  const deposit = { amount: "10000", authorization: { erc3009Authorization } };
  const other = read({ ...(await pay()), type: "deposit", deposit });
  expect([offer, byPermit2].map((of) => CHANNELS.pays(other, of))).toEqual([true, false]);
});

test.each([
  ["another payer", { from: stranger.address }],
  ["another token", { permitted: { token: stranger.address, amount: "10000" } }],
  ["another amount", { permitted: { token: ASSET, amount: "9999" } }],
  ["another spender", { spender: "0x402085c248EeA27D92E8b30b2C58ed07f9E20001" }],
  ["another channel", { witness: { channelId: `0x${"03".repeat(32)}` } }],
])("A permit of %s is not a deposit in the channel", async (_, more) => {
  expect(CHANNELS.pays(read(await permit(more)), byPermit2)).toBe(false);
});

test("Own settlement of a deposit by Permit2 ends at the deadline, and moves the tokens to the contract itself", async () => {
  const payload = await permit();
  expect(CHANNELS.readSettlable?.(payload, "batch-settlement")).toMatchObject({
    from: payer.address,
    validBefore: "9",
    moves: { to: "0x4020074e9df2ce1dee5a9c1b5c3f541d02a10003", amount: "10000" },
  });
  const { permit2Authorization } = payload.deposit.authorization;
  const both = { permit2Authorization, erc3009Authorization: { validBefore: "9" } };
  const deposit = { amount: "10000", authorization: both };
  expect(CHANNELS.readSettlable?.({ ...payload, deposit }, "batch-settlement")).toBeUndefined();
});

test("A deposit is paid when its chain shows it, by no journal entry, and is as high as the offer says", async () => {
  const payload = await pay();
  const signature = `0x${"11".repeat(65)}`;
  const erc3009Authorization = { validAfter: "0", validBefore: "9", salt: `0x${"02".repeat(32)}`, signature };
  const deposit = { amount: "10000", authorization: { erc3009Authorization } };
  const paid = { ...payload, type: "deposit", deposit };
  expect(await check(paid)).toBe("unpaid");
  expect(await check({ ...paid, deposit: { ...deposit, amount: "9999" } })).toEqual({
    invalid: LOW_DEPOSIT,
  });
  expect(CHANNELS.evidenceOf?.({ payload: JSON.stringify({ payload: paid }) })).toBeUndefined();
  expect(CHANNELS.evidenceOf?.({ payload: JSON.stringify({ payload }) })).toMatchObject({ kind: "paid" });
  expect([read(paid), read(payload)].map((payment) => CHANNELS.isEndless?.(payment))).toEqual([false, true]);
});
