import { expect, test } from "vitest";
import { payload } from "../../../src/parts/channels/payload.ts";
import { channelTerms } from "../../../src/parts/channels/terms.ts";

const ID = `0x${"c".repeat(64)}`;
const SALT = `0x${"02".repeat(32)}`;
const ADDRESS = `0x${"a".repeat(40)}`;
const SIGNATURE = `0x${"11".repeat(65)}`;

/** Terms of a store that has no channel. */
const terms = channelTerms({
  ledger: { findChannel: async () => undefined },
  journal: { findPaymentByFingerprint: async () => undefined },
  lost: { look: async () => undefined },
} as unknown as Parameters<typeof channelTerms>[0]);

const channelConfig = {
  ...{ payer: ADDRESS, payerAuthorizer: ADDRESS, receiver: ADDRESS, receiverAuthorizer: ADDRESS },
  ...{ token: ADDRESS, withdrawDelay: 900, salt: SALT },
};
const voucher = { channelId: ID, maxClaimableAmount: "10", signature: SIGNATURE };
const erc3009Authorization = { validAfter: "0", validBefore: "2000000000", salt: SALT, signature: SIGNATURE };
const deposit = { amount: "100", authorization: { erc3009Authorization } };

/** Runs the check on a payment, whatever its request is. */
async function check(fields: object) {
  const { details } = payload.parse({ channelConfig, voucher, ...fields });
  const payment = { method: { name: "channel" }, details };
  return terms.checks?.[0]?.run({ payment } as unknown as Parameters<
    NonNullable<typeof terms.checks>[number]["run"]
  >[0]);
}

test("A deposit is used up by the payment that it comes with, in whatever request, and a voucher alone is not", async () => {
  const used = await check({ type: "deposit", deposit });
  expect(used?.nonce?.nonce).toEqual({ key: `deposit ${ID} ${SALT}`, expiresAt: 2_000_000_000 });
  expect(used?.nonce?.refusal()).toMatchObject({
    status: 402,
    message: "invalid_batch_settlement_evm_cumulative_amount_mismatch",
  });
  expect(await check({ type: "voucher" })).toBeUndefined();
});
