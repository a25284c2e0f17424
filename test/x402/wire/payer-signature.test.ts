import { describe, expect, it } from "vitest";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { isSignedByPayer } from "../../../src/x402/wire/payer-signature.ts";
import { accounts } from "../../helpers/accounts.ts";
import { type Permit2Authorization, signPermit2Payment } from "../../helpers/clients.ts";
import { EURC, offersOf, PERMIT2_USDC, read, signedPayload, USDC } from "../payments.ts";

const [OFFER] = offersOf({ tokens: [PERMIT2_USDC] }) as [Offer];
const permitted = async (permit?: Partial<Permit2Authorization>) => {
  const offer = { x402Version: 2, resource: { url: "http://a" }, accepts: [toRequirements(OFFER)] };
  return (await signPermit2Payment({ offer, account: accounts.payer, ...(permit && { permit }) })).payload;
};

describe("The signature of a payer", () => {
  it("Is recognised for its token and method", async () => {
    const tokens = [EURC, USDC, PERMIT2_USDC];
    expect(await isSignedByPayer(read(await signedPayload()), tokens)).toBe(true);
    expect(await isSignedByPayer(read(await permitted()), tokens)).toBe(true);
  });

  it("Is not his for the other method, another recipient or spender, or once a signed field is changed", async () => {
    const payload = await permitted();
    expect(await isSignedByPayer(read(payload), [USDC])).toBe(false);
    expect(await isSignedByPayer(read(await signedPayload()), [PERMIT2_USDC])).toBe(false);
    const other = { ...PERMIT2_USDC, payTo: accounts.stranger.address };
    expect(await isSignedByPayer(read(payload), [other])).toBe(false);
    const spent = await permitted({ spender: accounts.payTo.address });
    expect(await isSignedByPayer(read(spent), [PERMIT2_USDC])).toBe(false);

    const signed = payload.payload.permit2Authorization as Permit2Authorization;
    for (const change of [
      { nonce: "7" },
      { deadline: "9" },
      { from: accounts.otherPayer.address },
      { permitted: { ...signed.permitted, amount: "1" } },
    ]) {
      const permit2Authorization = { ...signed, ...change };
      const forged = read({ ...payload, payload: { ...payload.payload, permit2Authorization } });
      expect([change, await isSignedByPayer(forged, [PERMIT2_USDC])]).toEqual([change, false]);
    }
  });
});
