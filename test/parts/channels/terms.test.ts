import { expect, test } from "vitest";
import { payload } from "../../../src/parts/channels/payload.ts";
import { channelTerms } from "../../../src/parts/channels/terms.ts";

const ID = `0x${"c".repeat(64)}`;
const SALT = `0x${"02".repeat(32)}`;
const ADDRESS = `0x${"a".repeat(40)}`;
const SIGNATURE = `0x${"11".repeat(65)}`;

const channelConfig = {
  ...{ payer: ADDRESS, payerAuthorizer: ADDRESS, receiver: ADDRESS, receiverAuthorizer: ADDRESS },
  ...{ token: ADDRESS, withdrawDelay: 900, salt: SALT },
};
const voucher = { channelId: ID, maxClaimableAmount: "10", signature: SIGNATURE };
const erc3009Authorization = { validAfter: "0", validBefore: "2000000000", salt: SALT, signature: SIGNATURE };
const deposit = { amount: "100", authorization: { erc3009Authorization } };

/** Runs a check on a payment, whatever its request is. @param row channel of the store; default: none */
async function check(fields: object, of: { name: string; row?: object; canSign?: boolean }) {
  const { details } = payload.parse({ channelConfig, voucher, ...fields });
  const { checks } = channelTerms({
    ledger: { findChannel: async () => of.row },
    canSign: () => of.canSign !== false,
  } as unknown as Parameters<typeof channelTerms>[0]);
  const payment = { method: { name: "channel" }, details, payload: { accepted: { amount: "10" } } };
  const found = checks?.find(({ name }) => name === of.name);
  return found?.run({ payment } as unknown as Parameters<typeof found.run>[0]);
}

test("A deposit is used up by the payment that it comes with, in whatever request, and a voucher alone is not", async () => {
  const used = await check({ type: "deposit", deposit }, { name: "channel" });
  expect(used?.nonce?.nonce).toEqual({ key: `deposit ${ID} ${SALT}`, expiresAt: 2_000_000_000 });
  expect(used?.nonce?.refusal()).toMatchObject({
    status: 402,
    message: "invalid_batch_settlement_evm_cumulative_amount_mismatch",
  });
  const permitted = { token: ADDRESS, amount: "100" };
  const permit2Authorization = {
    ...{ from: ADDRESS, permitted, spender: ADDRESS, nonce: "77", deadline: "2000000001" },
    ...{ witness: { channelId: ID }, signature: SIGNATURE },
  };
  const byPermit2 = { amount: "100", authorization: { permit2Authorization } };
  const { nonce } = (await check({ type: "deposit", deposit: byPermit2 }, { name: "channel" })) ?? {};
  expect(nonce?.nonce).toEqual({ key: `deposit ${ID} 77`, expiresAt: 2_000_000_001 });
  expect(await check({ type: "voucher" }, { name: "channel" })).toBeUndefined();
});

test("A deposit whose voucher does not follow from the sums of its channel gets the sums, before it is verified", async () => {
  const buy = (base: string, status = "open") =>
    check({ type: "deposit", deposit }, { name: "open channel", row: { status, base } });
  await expect(buy("10")).rejects.toThrow("cumulative_amount_mismatch");
  expect(await buy("0")).toBeUndefined();
  // The write that would begin the payment has the last word.
  expect(await buy("10", "refunding")).toBeUndefined();
});

test("A channel whose claims no key signs takes neither vouchers nor deposits", async () => {
  const of = { name: "open channel", canSign: false };
  for (const fields of [{ type: "voucher" }, { type: "deposit", deposit }])
    await expect(check(fields, of)).rejects.toMatchObject({ code: "payment_mismatch", status: 402 });
});
