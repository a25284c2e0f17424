import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { describe, expect, it } from "vitest";
import { isSignedByPayer, matchOffer } from "../../../src/x402/wire/match-offer.ts";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { accounts } from "../../helpers/accounts.ts";
import { AMOUNT, EURC, inOther, OTHER_USDC, offersOf, read, signedPayload, USDC } from "../payments.ts";

const NOW_SECS = 1_800_000_000;
const [OFFER] = offersOf() as [Offer];
/** Time window that is open at {@link NOW_SECS}. */
const WINDOW = { validAfter: String(NOW_SECS - 600), validBefore: String(NOW_SECS + 300) };

/** Returns the symbol of the offer that a payment matches, or the code of its refusal. */
async function outcome(
  payload: unknown,
  options: { offers?: Offer[]; nowMs?: number; header?: string } = {},
) {
  const { offers = [OFFER], nowMs = NOW_SECS * 1000, header } = options;
  try {
    return (await matchOffer(read(payload, header), offers, nowMs)).token.symbol;
  } catch (error) {
    return (error as { code?: string }).code ?? error;
  }
}

const good = (
  authorization: Record<string, string> = {},
  edit?: (payload: PaymentPayload) => PaymentPayload,
) =>
  signedPayload({ authorization: { ...WINDOW, ...authorization }, ...(edit === undefined ? {} : { edit }) });

describe("The signed authorization", () => {
  it("Exactly the offered amount matches, with addresses in any letter case", async () => {
    expect(await outcome(await good())).toBe("USDC");
    const accepted = { asset: USDC.asset.toLowerCase(), payTo: USDC.payTo.toUpperCase().replace("0X", "0x") };
    const edit = (payload: PaymentPayload) => ({
      ...payload,
      accepted: { ...payload.accepted, ...accepted },
    });
    expect(await outcome(await good({}, edit))).toBe("USDC");
  });

  it("A unit short or over, nothing, or 2^256 - 1 is a mismatch", async () => {
    for (const value of [BigInt(AMOUNT) - 1n, BigInt(AMOUNT) + 1n, 0n, 2n ** 256n - 1n])
      expect([value, await outcome(await good({ value: String(value) }))]).toEqual([
        value,
        "payment_mismatch",
      ]);
  });

  it("Another recipient is a mismatch", async () => {
    expect(await outcome(await good({ to: accounts.stranger.address }))).toBe("payment_mismatch");
    expect(await outcome(await good({ to: accounts.payer.address }))).toBe("payment_mismatch");
  });
});

describe("The offer that a payment names", () => {
  it.each<[string, Partial<PaymentRequirements>]>([
    ["scheme", { scheme: "upto" }],
    ["network", { network: "eip155:8453" }],
    ["asset", { asset: EURC.asset }],
    ["payTo", { payTo: accounts.stranger.address }],
    ["amount short", { amount: "3263999" }],
    ["amount over", { amount: "3264001" }],
    ["amount written otherwise", { amount: "03264000" }],
    ["extra's name", { extra: { name: "USD Coin", version: "2" } }],
    ["extra's version", { extra: { name: "USDC", version: "1" } }],
    ["extra, empty", { extra: {} }],
    ["extra, with more", { extra: { name: "USDC", version: "2", assetTransferMethod: "other" } }],
  ])("An edited %s is a mismatch", async (_name, changes) => {
    const edit = (payload: PaymentPayload) => ({ ...payload, accepted: { ...payload.accepted, ...changes } });
    expect(await outcome(await good({}, edit))).toBe("payment_mismatch");
  });

  it("Is an open one if the payment's version says so", async () => {
    const other = inOther(await good());
    expect(await outcome(other, { header: "x-other" })).toBe("USDC");
    for (const changes of [{ network: "other-8453" }, { scheme: "upto" }])
      expect(await outcome({ ...other, ...changes }, { header: "x-other" })).toBe("payment_mismatch");
  });

  it("No open offer is a mismatch", async () => {
    expect(await outcome(await good(), { offers: [] })).toBe("payment_mismatch");
  });

  it("An offer by another method is a mismatch", async () => {
    const offers = offersOf({ tokens: [OTHER_USDC] });
    const payload = await signedPayload({ offer: offers[0] as Offer, authorization: WINDOW });
    expect(await outcome(payload, { offers })).toBe("payment_mismatch");
    expect(await outcome(inOther(payload), { offers, header: "x-other" })).toBe("payment_mismatch");
  });
});

describe("The time window", () => {
  it.each([
    ["not yet valid by a second", -1, "payment_mismatch"],
    ["valid from this second on", 0, "USDC"],
  ])("An authorization that is %s", async (_name, offset, expected) => {
    const payload = await good({ validAfter: String(NOW_SECS) });
    expect(await outcome(payload, { nowMs: (NOW_SECS + offset) * 1000 })).toBe(expected);
  });

  it.each([
    ["7 s left", 7_000, "USDC"],
    ["6 s left", 6_000, "USDC"],
    ["5.999 s left", 5_999, "payment_mismatch"],
    ["5 s left", 5_000, "payment_mismatch"],
    ["1 s left", 1_000, "payment_mismatch"],
    ["none left", 0, "payment_mismatch"],
    ["expired", -1_000, "payment_mismatch"],
  ])("An authorization with %s", async (_name, leftMs, expected) => {
    const payload = await good({ validBefore: String(NOW_SECS + 1_000) });
    expect(await outcome(payload, { nowMs: (NOW_SECS + 1_000) * 1000 - leftMs })).toBe(expected);
  });

  it.each([
    [300n + 3_600n, "USDC"],
    [300n + 3_601n, "payment_mismatch"],
    [2n ** 255n, "payment_mismatch"],
  ])(
    "An authorization that ends in %i s, where the offer's maxTimeoutSeconds is 300",
    async (secs, expected) => {
      expect(await outcome(await good({ validBefore: String(BigInt(NOW_SECS) + secs) }))).toBe(expected);
    },
  );

  it("An authorization that ends before it starts is a mismatch at any time", async () => {
    const payload = await good({ validAfter: String(NOW_SECS + 100), validBefore: String(NOW_SECS - 100) });
    for (const offset of [-200, 0, 200])
      expect(await outcome(payload, { nowMs: (NOW_SECS + offset) * 1000 })).toBe("payment_mismatch");
  });
});

describe("Two tokens of one network at one amount", () => {
  const offers = offersOf({ tokens: [USDC, EURC] });
  const pay = (offer: Offer | undefined) => signedPayload({ offer: offer as Offer, authorization: WINDOW });

  it("A payment that names no token: the signature decides, in either order of the offers", async () => {
    for (const offer of offers)
      for (const listed of [offers, [...offers].reverse()])
        expect(await outcome(inOther(await pay(offer)), { offers: listed, header: "x-other" })).toBe(
          offer.token.symbol,
        );
  });

  it("Version 2 names its token, which counts even if another token was signed", async () => {
    const [usdc, eurc] = offers as [Offer, Offer];
    const forged = { ...(await pay(eurc)), accepted: toRequirements(usdc) };
    expect(await outcome(forged, { offers })).toBe("USDC");
  });
});

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
