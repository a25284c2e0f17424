import { expect, it } from "vitest";
import { readSettlerPayment } from "../../../src/parts/local-facilitator/payment.ts";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { accounts } from "../../helpers/accounts.ts";
import { signPermit2Payment } from "../../helpers/clients.ts";
import { offersOf, PERMIT2_USDC } from "../../x402/payments.ts";

it("Any nonce below 2^256 is one of a Permit2 payment, and nothing else is", async () => {
  const requirements = toRequirements(offersOf({ tokens: [PERMIT2_USDC] })[0] as Offer);
  const read = async (nonce: bigint | string) => {
    const offer = { x402Version: 2, resource: { url: "http://a" }, accepts: [requirements] };
    // The signature of a nonce that is too large cannot be made.
    const edit = (payload: Awaited<ReturnType<typeof signPermit2Payment>>["payload"]) => {
      const permit2Authorization = {
        ...(payload.payload.permit2Authorization as object),
        nonce: String(nonce),
      };
      return { ...payload, payload: { ...payload.payload, permit2Authorization } };
    };
    const { payload } = await signPermit2Payment({ offer, account: accounts.payer, edit });
    return readSettlerPayment({ payload, requirements });
  };
  for (const nonce of [0n, 10n ** 77n, 2n ** 256n - 1n]) expect(await read(nonce)).toBeDefined();
  for (const nonce of [2n ** 256n, "", "seven"]) expect(await read(nonce)).toBeUndefined();
});
