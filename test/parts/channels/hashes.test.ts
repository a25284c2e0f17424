import { computeChannelId } from "@x402/evm/batch-settlement/client";
import { hashTypedData } from "viem";
import { expect, test } from "vitest";
import {
  CHANNELS_CONTRACT,
  channelIdOf,
  claimDigest,
  depositNonce,
  refundDigest,
  voucherDigest,
} from "../../../src/parts/channels/hashes.ts";
import { newAccount } from "../../helpers/accounts.ts";

const CHAIN = 84_532;
const domain = {
  ...{ name: "x402 Batch Settlement", version: "1", chainId: CHAIN },
  verifyingContract: CHANNELS_CONTRACT,
} as const;
const accounts = Array.from({ length: 5 }, () => newAccount().address.toLowerCase() as `0x${string}`);
const [payer, payerAuthorizer, receiver, receiverAuthorizer, token] = accounts as [
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
];
const salt = `0x${"7f".repeat(32)}` as const;
const config = { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay: 86_400, salt };
const channelId = channelIdOf(CHAIN, config);
const word = (name: string, type: string) => ({ name, type });

test("The id of a channel equals the official client's", () => {
  expect(channelId).toBe(computeChannelId(config, `eip155:${CHAIN}`));
});

test("Each field of a channel makes another id, also after the id of a channel was asked for before", () => {
  const others = [
    ...(["payer", "payerAuthorizer", "receiver", "receiverAuthorizer", "token"] as const).map((field) => ({
      ...config,
      [field]: newAccount().address.toLowerCase(),
    })),
    { ...config, withdrawDelay: 86_401 },
    { ...config, salt: `0x${"00".repeat(32)}` as const },
  ];
  const made = [config, ...others, config].map((one) => channelIdOf(CHAIN, one));
  const expected = [config, ...others, config].map((one) => computeChannelId(one, `eip155:${CHAIN}`));
  expect(made).toEqual(expected);
  expect(channelIdOf(1, config)).toBe(computeChannelId(config, "eip155:1"));
});

test("Vouchers, refunds and claims have the digests of x402's typed data", () => {
  const amount = 123_456n;
  expect(voucherDigest(CHAIN, channelId, amount)).toBe(
    hashTypedData({
      domain,
      types: { Voucher: [word("channelId", "bytes32"), word("maxClaimableAmount", "uint128")] },
      primaryType: "Voucher",
      message: { channelId, maxClaimableAmount: amount },
    }),
  );
  expect(refundDigest(CHAIN, { channelId, nonce: 3n, amount })).toBe(
    hashTypedData({
      domain,
      types: { Refund: [word("channelId", "bytes32"), word("nonce", "uint256"), word("amount", "uint128")] },
      primaryType: "Refund",
      message: { channelId, nonce: 3n, amount },
    }),
  );
  const claims = [1n, 2n].map((n) => ({ channelId, maxClaimableAmount: amount, totalClaimed: n }));
  const ClaimEntry = [
    word("channelId", "bytes32"),
    word("maxClaimableAmount", "uint128"),
    word("totalClaimed", "uint128"),
  ];
  expect(claimDigest(CHAIN, claims)).toBe(
    hashTypedData({
      domain,
      types: { ClaimBatch: [word("claims", "ClaimEntry[]")], ClaimEntry },
      primaryType: "ClaimBatch",
      message: { claims },
    }),
  );
});

test("The nonce of a deposit names its channel", () => {
  const other = channelIdOf(CHAIN, { ...config, salt: `0x${"00".repeat(32)}` });
  expect(depositNonce(channelId, salt)).not.toBe(depositNonce(other, salt));
});
