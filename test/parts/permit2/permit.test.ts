import type { PaymentRequired } from "@x402/core/types";
import { PERMIT2_ADDRESS, x402ExactPermit2ProxyAddress, x402UptoPermit2ProxyAddress } from "@x402/evm";
import { describe, expect, it } from "vitest";
import { PERMIT2 } from "../../../src/parts/permit2/method.ts";
import { isSignedByPayer, matchOffer } from "../../../src/x402/wire/match-offer.ts";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { accounts } from "../../helpers/accounts.ts";
import { type Permit2Authorization, signMeteredPayment, signPermit2Payment } from "../../helpers/clients.ts";
import { AMOUNT, EURC, OTHER_SCHEME, offersOf, signedPayload, USDC } from "../../x402/payments.ts";
import { PERMIT2_USDC, permitFor, read } from "./payments.ts";

const NOW_SECS = 1_800_000_000;
const [EIP3009_OFFER] = offersOf() as [Offer];
const [OFFER] = offersOf({ tokens: [PERMIT2_USDC] }) as [Offer];
/** Time window of EIP-3009 that is open at {@link NOW_SECS}. */
const WINDOW = { validAfter: String(NOW_SECS - 600), validBefore: String(NOW_SECS + 300) };

/** Returns the symbol of the offer that a payment matches, or the code of its refusal. */
async function outcome(payload: unknown, options: { offers?: Offer[]; nowMs?: number } = {}) {
  const { offers = [OFFER], nowMs = NOW_SECS * 1000 } = options;
  try {
    return (await matchOffer(read(payload), offers, nowMs)).token.symbol;
  } catch (error) {
    return (error as { code?: string }).code ?? error;
  }
}

/** Signs a payment whose time window is open at {@link NOW_SECS}. */
const permitted = (permit: Partial<Permit2Authorization> = {}, offer = OFFER) =>
  permitFor(offer, { deadline: WINDOW.validBefore, ...permit });

it("An offer names Permit2 in extra, with the token's domain if it has one", () => {
  const { eip3009: _, ...withoutDomain } = PERMIT2_USDC;
  const [plain] = offersOf({ tokens: [withoutDomain] }) as [Offer];
  expect(toRequirements(OFFER).extra).toEqual({
    name: "USDC",
    version: "2",
    assetTransferMethod: "permit2",
  });
  expect(toRequirements(plain).extra).toEqual({ assetTransferMethod: "permit2" });
});

describe("A Permit2 payment", () => {
  const witness = { to: accounts.payTo.address, validAfter: "0" };

  it("Is read as Permit2", async () => {
    const payment = read(await permitFor(OFFER));
    expect(payment).toMatchObject({
      method: { name: "permit2" },
      from: accounts.payer.address.toLowerCase(),
      to: accounts.payTo.address.toLowerCase(),
      value: BigInt(AMOUNT),
      nonce: expect.stringMatching(/^[0-9]+$/),
      payload: {
        payload: {
          permit2Authorization: { permitted: { token: USDC.asset }, spender: x402ExactPermit2ProxyAddress },
        },
      },
    });
  });

  it("That signs the token, the amount, the proxy and the recipient matches its offer", async () => {
    for (const permit of [{}, { nonce: String(2n ** 256n - 1n) }])
      expect(await outcome(await permitted(permit))).toBe("USDC");
  });

  it.each<[string, Parameters<typeof permitted>[0]]>([
    ["another token", { permitted: { token: EURC.asset as `0x${string}`, amount: AMOUNT } }],
    [
      "a unit short",
      { permitted: { token: USDC.asset as `0x${string}`, amount: String(BigInt(AMOUNT) - 1n) } },
    ],
    [
      "a unit over",
      { permitted: { token: USDC.asset as `0x${string}`, amount: String(BigInt(AMOUNT) + 1n) } },
    ],
    ["Permit2 as spender", { spender: PERMIT2_ADDRESS }],
    ["the proxy of another scheme as spender", { spender: x402UptoPermit2ProxyAddress }],
    ["an account as spender", { spender: accounts.payTo.address }],
    ["another recipient", { witness: { ...witness, to: accounts.stranger.address } }],
    ["a start in the future", { witness: { ...witness, validAfter: String(NOW_SECS + 1) } }],
    ["5 s left", { deadline: String(NOW_SECS + 5) }],
    ["no end", { deadline: String(2n ** 256n - 1n) }],
  ])("That signs %s is a mismatch", async (_name, permit) => {
    expect(await outcome(await permitted(permit))).toBe("payment_mismatch");
  });

  it("With a nonce of 2^256, with leading zeros or without digits is not a payment", async () => {
    const payload = await permitted();
    const authorization = payload.payload.permit2Authorization as Record<string, unknown>;
    for (const nonce of [String(2n ** 256n), "007", "0x7", "-1", "", "seven"]) {
      const changed = { ...authorization, nonce };
      const forged = { ...payload, payload: { ...payload.payload, permit2Authorization: changed } };
      expect(() => read(forged), nonce).toThrow(/permit2Authorization.nonce/);
    }
  });

  it("With an EIP-3009 authorization beside the permit is not a payment", async () => {
    const [permit, { payload }] = [await permitted(), await signedPayload()];
    const both = { ...permit, payload: { ...permit.payload, ...payload } };
    expect(() => read(both)).toThrow(/payload is not a Permit2 authorization/);
  });

  it("Is a mismatch for an EIP-3009 offer", async () => {
    expect(await outcome(await permitted({}, EIP3009_OFFER), { offers: [EIP3009_OFFER] })).toBe(
      "payment_mismatch",
    );
  });

  it("Is not what an EIP-3009 payload pays", async () => {
    expect(await outcome(await signedPayload({ offer: OFFER, authorization: WINDOW }))).toBe(
      "payment_mismatch",
    );
  });

  it("Takes its own offer, where the token is offered by both methods", async () => {
    const both = offersOf({ tokens: [USDC, PERMIT2_USDC] });
    const methodOf = async (payload: unknown) =>
      (await matchOffer(read(payload), both, NOW_SECS * 1000)).token.transferMethod;
    expect(await methodOf(await permitted())).toBe("permit2");
    const eip3009 = await signedPayload({ authorization: WINDOW });
    expect(await methodOf(eip3009)).toBe("eip3009");
  });
});

it("A payment of a ceiling matches only the offer that names the facilitator that the payer signed", async () => {
  const offerAt = (facilitatorAddress: string) => {
    const facilitatorAddresses = new Map([[USDC.network, facilitatorAddress]]);
    const charge = { kinds: ["used"], methods: new Set(["permit2"]), runSecs: 0, scheme: OTHER_SCHEME };
    const tokens = [{ ...PERMIT2_USDC, rpcUrl: "http://node" }];
    return offersOf({ tokens, charge: { ...charge, facilitatorAddresses } });
  };
  const offers = offerAt(accounts.payTo.address);
  const required = { x402Version: 2, accepts: offers.map(toRequirements) } as PaymentRequired;
  const { payload } = await signMeteredPayment({ offer: required, account: accounts.payer });
  const nowMs = Date.now();
  expect(await outcome(payload, { offers, nowMs })).toBe("USDC");
  for (const others of [offerAt(accounts.stranger.address), [OFFER]]) {
    const accepted = toRequirements(others[0] as Offer);
    expect(await outcome({ ...payload, accepted }, { offers: others, nowMs })).toBe("payment_mismatch");
  }
});

describe("The signature of a payer", () => {
  it("Is recognised for its token and method", async () => {
    const tokens = [EURC, USDC, PERMIT2_USDC];
    expect(await isSignedByPayer(read(await signedPayload()), tokens)).toBe(true);
    expect(await isSignedByPayer(read(await permitFor(OFFER)), tokens)).toBe(true);
  });

  it("Is not the payer's for the other method, another recipient or spender, or once a signed field is changed", async () => {
    const payload = await permitFor(OFFER);
    expect(await isSignedByPayer(read(payload), [USDC])).toBe(false);
    expect(await isSignedByPayer(read(await signedPayload()), [PERMIT2_USDC])).toBe(false);
    const other = { ...PERMIT2_USDC, payTo: accounts.stranger.address };
    expect(await isSignedByPayer(read(payload), [other])).toBe(false);
    const spent = await permitFor(OFFER, { spender: accounts.payTo.address });
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

it("A facilitator in this process takes any nonce below 2^256, and nothing else", async () => {
  const requirements = toRequirements(OFFER);
  const settles = async (nonce: bigint | string) => {
    const offer = { x402Version: 2, resource: { url: "http://a" }, accepts: [requirements] };
    // The signature of a nonce that is too large cannot be made.
    const edit = (payload: Awaited<ReturnType<typeof permitFor>>) => {
      const permit2Authorization = {
        ...(payload.payload.permit2Authorization as object),
        nonce: String(nonce),
      };
      return { ...payload, payload: { ...payload.payload, permit2Authorization } };
    };
    const { payload } = await signPermit2Payment({ offer, account: accounts.payer, edit });
    return PERMIT2.readSettlable?.(payload.payload, requirements.scheme);
  };
  for (const nonce of [0n, 10n ** 77n, 2n ** 256n - 1n]) expect(await settles(nonce)).toBeDefined();
  for (const nonce of [2n ** 256n, "", "seven"]) expect(await settles(nonce)).toBeUndefined();
});
