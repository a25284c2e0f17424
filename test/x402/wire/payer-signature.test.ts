import { describe, expect, it } from "vitest";
import { isSignedByPayer } from "../../../src/x402/wire/payer-signature.ts";
import { accounts } from "../../helpers/accounts.ts";
import { EURC, OTHER_USDC, read, signedPayload, USDC } from "../payments.ts";

describe("The signature of a payer", () => {
  it("Is recognised for its token and method", async () => {
    const payment = read(await signedPayload());
    expect(await isSignedByPayer(payment, [EURC, OTHER_USDC, USDC])).toBe(true);
    expect(await isSignedByPayer(payment, [OTHER_USDC])).toBe(false);
  });

  it("Is not the payer's for another token or recipient, or once a signed field is changed", async () => {
    const payload = await signedPayload();
    expect(await isSignedByPayer(read(payload), [EURC])).toBe(false);
    expect(await isSignedByPayer(read(payload), [{ ...USDC, payTo: accounts.stranger.address }])).toBe(false);
    for (const change of [
      { nonce: `0x${"07".repeat(32)}` },
      { validBefore: "9" },
      { from: accounts.otherPayer.address },
      { value: "1" },
    ]) {
      const authorization = { ...(payload.payload.authorization as object), ...change };
      const forged = read({ ...payload, payload: { ...payload.payload, authorization } });
      expect([change, await isSignedByPayer(forged, [USDC])]).toEqual([change, false]);
    }
  });
});
