import type { PaymentPayload } from "@x402/core/types";
import { generatePaymentId } from "@x402/extensions/payment-identifier";
import {
  type Address,
  concat,
  type Hex,
  padHex,
  parseSignature,
  serializeCompactSignature,
  signatureToCompactSignature,
} from "viem";
import { beforeAll, describe, expect, it } from "vitest";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { requestOffer, signPermit2Payment, signV1Payment, withIdentifier } from "../helpers/clients.ts";
import { approvePermit2, installPermit2 } from "../helpers/permit2.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import {
  ALLOWED_FACTORY,
  approveOnChain,
  deployWallet,
  installAllowedFactory,
  type SignatureForm,
  undeployedWallet,
  walletAccount,
} from "../helpers/wallets.ts";
import { ACCEPTED, FAILED, UNDECIDED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { localSettler } from "./local-facilitator.ts";
import { withPermit2 } from "./paid-config.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const owner = accounts.stranger;
const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    periods: { confirmationTimeoutMs: 1_000, secondLookAfterMs: 50, roundMs: 50, firstDelayMs: 50 },
    // Takes USDC by Permit2 too, as the second option.
    edit: (config) => withPermit2(config),
  }),
);
const local = startBeforeAll(async () => {
  const { edit } = await localSettler({ anvil: parts.anvil });
  return startPaidGateway({ parts, setUp: "rpc_url", edit });
});
const INVALID = { status: 402, code: "payment_invalid", charged: false, retryable: false };

/** A wallet's other ways to write the owner's signature. */
const withPrefix =
  (bytes: number): SignatureForm =>
  (signature) =>
    concat([padHex("0x01", { size: bytes }), signature]);
const compact: SignatureForm = (signature) =>
  serializeCompactSignature(signatureToCompactSignature(parseSignature(signature)));

describe("A payer that is a contract (ERC-1271)", () => {
  let wallet: Address;
  beforeAll(async () => {
    wallet = await deployWallet({ anvil: parts.anvil, name: "OwnedWallet", argument: owner.address });
    await parts.usdc.mint(wallet, 1_000_000_000n);
  });
  const payer = (form?: SignatureForm) => walletAccount(wallet, owner, form);

  const approved: SignatureForm = async (_signature, hash) => {
    await approveOnChain({ anvil: parts.anvil, wallet, owner, hash });
    return "0x" as const;
  };

  it.each<[string, () => SignatureForm]>([
    ["65 bytes", () => (signature) => signature],
    ["more bytes", () => withPrefix(1)],
    ["4096 bytes", () => withPrefix(4096 - 65)],
    ["64 bytes", () => compact],
    ["no bytes, as it was approved on the chain", () => approved],
  ])("Buys a job with a signature of %s", async (form, toForm) => {
    const payment = await gateway.sign({ account: payer(toForm()) });
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.send(payment, { body: form });
    expect(answer).toMatchObject(ACCEPTED);
    expect(answer.settlement?.payer).toBe(wallet.toLowerCase());
    expect(await gateway.send(payment, { body: form })).toEqual(answer);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Buys a job with version 1", async () => {
    const { v1 } = await requestOffer(gateway.urlOf());
    const expectChanges = await watchLedger(parts, gateway);
    const payment = await signV1Payment({ offer: v1, account: payer(withPrefix(1)) });
    expect(await gateway.send(payment, { body: "version 1" })).toMatchObject({ status: 202 });
    await expectChanges(ONE_PAID_JOB);
  });

  it("Buys a job by Permit2", async () => {
    const { anvil, usdc } = parts;
    await installPermit2(anvil);
    await anvil.client.impersonateAccount({ address: wallet });
    await anvil.client.setBalance({ address: wallet, value: 10n ** 18n });
    await approvePermit2({ anvil, token: usdc.address, account: payer() });
    for (const [form, account] of Object.entries({ "65": payer(), "66": payer(withPrefix(1)) })) {
      const { v2: offer } = await requestOffer(gateway.urlOf());
      const payment = await signPermit2Payment({ offer, account, option: 1 });
      const body = `Permit2 with ${form} bytes`;
      const expectChanges = await watchLedger(parts, gateway);
      const answer = await gateway.send(payment, { body });
      expect(answer).toMatchObject(ACCEPTED);
      expect(await gateway.send(payment, { body })).toEqual(answer);
      await expectChanges(ONE_PAID_JOB);
    }
  });

  it("Is refused with another account's signature", async () => {
    const payment = await gateway.sign({ account: walletAccount(wallet, accounts.payer) });
    const expectChanges = await watchLedger(parts, gateway);
    expect(await gateway.send(payment)).toEqual(INVALID);
    await expectChanges({ verifyCalls: 1 });
  });

  it("Buys one job with two signatures over one nonce", async () => {
    const one = await gateway.sign({ account: payer() });
    const { authorization } = one.signed;
    const other = await gateway.sign({ account: payer(withPrefix(1)), authorization });
    const body = "two signatures";
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all([gateway.send(one, { body }), gateway.send(other, { body })]);
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 2 });

    const third = await gateway.sign({ account: payer(withPrefix(2)), authorization });
    expect(await gateway.send(third, { body })).toMatchObject({
      status: 409,
      code: "payment_replay",
      charged: "unknown",
    });
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 3 });
  });

  it("Gets the first outcome of its payment identifier, once the facilitator has verified who asks", async () => {
    const id = generatePaymentId();
    const sign = (account: TestAccount) =>
      gateway.sign({ account, edit: (payload) => withIdentifier(payload, id) });
    const body = "identified";
    const expectChanges = await watchLedger(parts, gateway);
    const first = await gateway.send(await sign(payer()), { body });
    expect(first).toMatchObject(ACCEPTED);
    const again = await sign(payer(withPrefix(1)));
    expect(await gateway.send(again, { body })).toEqual(first);
    expect(await gateway.send(await sign(walletAccount(wallet, accounts.payer)), { body })).toEqual(INVALID);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 3 });
    expect(await parts.usdc.authorizationState(wallet, again.signed.authorization.nonce)).toBe(false);
  });

  it("Is settled once when two are sent under one identifier at the same time", async () => {
    const id = generatePaymentId();
    const edit = (payload: PaymentPayload) => withIdentifier(payload, id);
    const payments = await Promise.all([1, 2, 3].map(() => gateway.sign({ account: payer(), edit })));
    const body = "at the same time";
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all(payments.map((payment) => gateway.send(payment, { body })));
    for (const answer of answers) expect([202, 503]).toContain(answer.status);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 3 });
  });

  it("Is not charged when it takes its approval back before the settlement", async () => {
    let hash: Hex = "0x";
    const account = payer((signature, signed) => {
      hash = signed;
      return approved(signature, signed);
    });
    const payment = await gateway.sign({ account });
    const body = "taken back";
    const expectChanges = await watchLedger(parts, gateway);
    const taken = gateway.duringSettle(() =>
      approveOnChain({ anvil: parts.anvil, wallet, owner, hash, isApproved: false }),
    );
    expect(await gateway.send(payment, { body })).toEqual(UNDECIDED);
    await taken;
    await parts.passTime(400);
    expect(await gateway.sendUntilDecided(payment, { body })).toEqual(FAILED);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });

  it("Has its job when the chain shows the settlement that the facilitator's answer denies", async () => {
    const payment = await gateway.sign({ account: payer(withPrefix(1)) });
    const body = "shown by the chain";
    const expectChanges = await watchLedger(parts, gateway);
    gateway.facilitatorProxy.add({ path: "/settle", fault: { kind: "lose-answer" }, times: 1 });
    expect(await gateway.sendUntilDecided(payment, { body })).toMatchObject(ACCEPTED);
    await expectChanges(ONE_PAID_JOB);
  });
});

describe("A payer that is a contract, where jobgate settles itself", () => {
  /** The facilitator of the other tests is not asked. */
  const ONE_OWN_SETTLEMENT = { ...ONE_PAID_JOB, verifyCalls: 0, settleCalls: 0 };

  it("Is refused before it is deployed, and buys a job with the same form of signature after that", async () => {
    const factory = await deployWallet({ anvil: parts.anvil, name: "WalletFactory" });
    const account = await undeployedWallet(factory, owner);
    await parts.usdc.mint(account.address, 1_000_000_000n);
    const expectChanges = await watchLedger(parts, local);
    const payment = await local.sign({ account });
    expect(await local.send(payment)).toEqual(INVALID);
    await expectChanges({});
    expect(await parts.anvil.client.getCode(account)).toBeUndefined();

    await account.deploy(parts.anvil);
    expect(await local.send(payment)).toMatchObject(ACCEPTED);
    await expectChanges(ONE_OWN_SETTLEMENT);
  });

  it("Buys a job with a signature of 64 bytes, and is refused with another account's signature", async () => {
    const address = await deployWallet({ anvil: parts.anvil, name: "OwnedWallet", argument: owner.address });
    await parts.usdc.mint(address, 1_000_000_000n);
    const expectChanges = await watchLedger(parts, local);
    const stolen = await local.sign({ account: walletAccount(address, accounts.payer) });
    expect(await local.send(stolen)).toEqual(INVALID);
    const payment = await local.sign({ account: walletAccount(address, owner, compact) });
    expect(await local.send(payment)).toMatchObject(ACCEPTED);
    await expectChanges(ONE_OWN_SETTLEMENT);
  });
});

describe.each([
  ["uses up all gas", true],
  ["runs into an invalid instruction", false],
])("A payer whose contract %s when it is called about a signature", (_what, argument) => {
  it("Is refused, where jobgate settles itself too", async () => {
    const address = await deployWallet({ anvil: parts.anvil, name: "HostileWallet", argument });
    await parts.usdc.mint(address, 1_000_000_000n);
    for (const seller of [gateway, local]) {
      const expectChanges = await watchLedger(parts, seller);
      const payment = await seller.sign({ account: walletAccount(address, owner) });
      expect(await seller.send(payment)).toEqual(INVALID);
      await expectChanges({ verifyCalls: seller === gateway ? 1 : 0 });
    }
  });
});

describe("A payer that is not deployed yet (ERC-6492)", () => {
  /** Wallet with money and without code. */
  const fund = async (factory: Address, ofOwner: TestAccount) => {
    const wallet = await undeployedWallet(factory, ofOwner);
    await parts.usdc.mint(wallet.address, 1_000_000_000n);
    expect(await parts.anvil.client.getCode(wallet)).toBeUndefined();
    return wallet;
  };

  it("Buys a job, which deploys it, and then another job with the same form of signature", async () => {
    await installAllowedFactory(parts.anvil);
    const account = await fund(ALLOWED_FACTORY, owner);
    for (const body of ["not deployed", "deployed"]) {
      const payment = await gateway.sign({ account });
      const expectChanges = await watchLedger(parts, gateway);
      expect(await gateway.send(payment, { body })).toMatchObject(ACCEPTED);
      await expectChanges(ONE_PAID_JOB);
      expect(await parts.anvil.client.getCode(account)).toMatch(/^0x6/);
    }
  });

  it("Is refused when the facilitator does not allow its factory", async () => {
    const factory = await deployWallet({ anvil: parts.anvil, name: "WalletFactory" });
    const account = await fund(factory, owner);
    const payment = await gateway.sign({ account });
    const expectChanges = await watchLedger(parts, gateway);
    expect(await gateway.send(payment)).toEqual(INVALID);
    await expectChanges({ verifyCalls: 1 });
    expect(await parts.anvil.client.getCode(account)).toBeUndefined();
  });
});
