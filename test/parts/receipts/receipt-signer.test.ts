import type { KeyObject } from "node:crypto";
import {
  extractPublicKeyFromKid,
  verifyOfferSignatureEIP712,
  verifyReceiptSignatureEIP712,
} from "@x402/extensions/offer-receipt";
import pino from "pino";
import { publicKeyToAddress } from "viem/accounts";
import { expect, onTestFinished, test } from "vitest";
import { HttpServer } from "../../../src/http/server.ts";
import type { SignedOffers } from "../../../src/parts/receipts/offer-receipt.ts";
import { ReceiptSigner } from "../../../src/parts/receipts/receipt-signer.ts";
import type { CallState } from "../../../src/store/contract/call-lookup.ts";
import type { Offer } from "../../../src/x402/wire/offer.ts";
import { accounts } from "../../helpers/accounts.ts";

const START_SECS = 1_800_000_000;
const OFFER: Offer = {
  job: { serviceId: 1n, jobIndex: 2 },
  priceWei: 1n,
  token: {
    network: "eip155:84532",
    asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    symbol: "USDC",
    decimals: 6,
    payTo: accounts.payTo.address,
    transferMethod: "eip3009",
  },
  amount: "1000",
  rate: "1",
  ttlSecs: 300,
};
const CALL: CallState = {
  callId: 7,
  payment: {
    network: "eip155:84532",
    asset: "0x1",
    payer: accounts.payer.address.toLowerCase(),
    nonce: "0x3",
  },
  job: { serviceId: 1n, jobIndex: 2 },
  state: "succeeded",
  attempt: 1,
  enqueuedAt: START_SECS * 1000,
  finishedAt: START_SECS * 1000 + 5_900,
};

/** A signer whose time the test sets. */
function signerAt(publicUrl = "https://shop.example") {
  const time = { secs: START_SECS };
  const config = { signer: { privateKey: accounts.stranger.privateKey } };
  return { time, signer: new ReceiptSigner({ config, x402: { publicUrl }, clock: () => time.secs * 1000 }) };
}

const endsOf = ({ "offer-receipt": { info } }: { readonly "offer-receipt": SignedOffers }) =>
  info.offers.map(({ payload }) => payload.validUntil);

test("An offer's signature is used for a minute, by every replica, and never promises more than the offer's lifetime", async () => {
  const { time, signer } = signerAt();
  const first = await signer.ofOffers([OFFER]);
  time.secs += 59;
  expect(await signer.ofOffers([{ ...OFFER }])).toBe(first);
  expect(await signerAt().signer.ofOffers([OFFER])).toEqual(first);
  time.secs += 1;
  const next = await signer.ofOffers([OFFER]);
  expect([endsOf(first), endsOf(next)]).toEqual([[START_SECS + 300], [START_SECS + 360]]);
  const [was, is] = [first, next].map(({ "offer-receipt": { info } }) => info.offers[0]?.signature);
  expect(is).not.toBe(was);
});

test("An offer of a short lifetime still has most of it when its signature is shown last", async () => {
  const { time, signer } = signerAt();
  for (; time.secs < START_SECS + 120; time.secs++) {
    const [end = 0] = endsOf(await signer.ofOffers([{ ...OFFER, ttlSecs: 20 }]));
    expect(end - time.secs).toBeGreaterThanOrEqual(15);
    expect(end - time.secs).toBeLessThanOrEqual(20);
  }
});

test("An offer that ends with its price is signed until then", async () => {
  const { time, signer } = signerAt();
  const endSecs = START_SECS + 90;
  for (const leftSecs of [90, 61, 2, 1]) {
    time.secs = endSecs - leftSecs;
    expect(endsOf(await signer.ofOffers([{ ...OFFER, endSecs, ttlSecs: leftSecs }]))).toEqual([endSecs]);
  }
});

test("Only the first offers are signed when all would make the header too large", async () => {
  const { signer } = signerAt(`https://${"long-name.".repeat(6)}example`);
  const offers = Array.from({ length: 20 }, (_, i) => ({ ...OFFER, amount: String(i + 1) }));
  const { "offer-receipt": signed } = await signer.ofOffers(offers);
  const count = signed.info.offers.length;
  expect(count).toBeGreaterThanOrEqual(3);
  expect(JSON.stringify(signed).length).toBeLessThan(2_800);
  expect(signed.info.offers.map(({ acceptIndex, payload }) => [acceptIndex, payload.amount])).toEqual(
    Array.from({ length: count }, (_, i) => [i, String(i + 1)]),
  );
  for (const offer of signed.info.offers) {
    const verified = await verifyOfferSignatureEIP712(
      offer as Parameters<typeof verifyOfferSignatureEIP712>[0],
    );
    expect(verified.signer).toBe(accounts.stranger.address);
  }
});

test("A call that was paid for and delivered has one receipt, issued at its end", async () => {
  const { time, signer } = signerAt();
  const extensions = await signer.ofCall(CALL);
  time.secs += 100_000;
  expect(await signer.ofCall({ ...CALL, settlement: JSON.stringify({ success: true }) })).toEqual(extensions);
  const { receipt } = extensions?.["offer-receipt"].info ?? {};
  expect(receipt?.payload).toMatchObject({
    issuedAt: START_SECS + 5,
    resourceUrl: "https://shop.example/x402/jobs/1/2",
  });
  const verified = await verifyReceiptSignatureEIP712(
    receipt as Parameters<typeof verifyReceiptSignatureEIP712>[0],
  );
  expect(verified.signer).toBe(accounts.stranger.address);
});

test("Each call has a receipt of its own, which stays the same", async () => {
  const { signer } = signerAt();
  const other = { ...CALL, callId: 8, finishedAt: (START_SECS + 60) * 1000 };
  const receiptOf = async (call: CallState) => (await signer.ofCall(call))?.["offer-receipt"].info.receipt;
  const [first, second] = [await receiptOf(CALL), await receiptOf(other)];
  expect(await receiptOf(CALL)).toEqual(first);
  for (const receipt of [first, second]) {
    const verified = await verifyReceiptSignatureEIP712(
      receipt as Parameters<typeof verifyReceiptSignatureEIP712>[0],
    );
    expect(verified.signer).toBe(accounts.stranger.address);
  }
  expect(second?.payload.issuedAt).toBe(START_SECS + 60);
});

test("A call that is not finished, failed, expired or was not charged has no receipt", async () => {
  const { signer } = signerAt();
  const { finishedAt: _, ...open } = CALL;
  const charge = { state: "released", ceiling: "9", amount: "0", symbol: "USDC" } as const;
  const without: CallState[] = [
    { ...open, state: "running" },
    { ...CALL, state: "failed" },
    { ...open, state: "expired" },
    { ...CALL, charge },
  ];
  for (const call of without) expect(await signer.ofCall(call)).toBeUndefined();
  expect(await signer.ofCall({ ...CALL, charge: { ...charge, state: "settled" } })).toBeDefined();
});

test.each(["", "/shop"])("did:web leads to the key, below the path %j too", async (path) => {
  const server = new HttpServer({
    address: { kind: "tcp", host: "127.0.0.1", port: 0 },
    logger: pino({ level: "silent" }),
  });
  let route: ReceiptSigner["didRoute"] | undefined;
  // The proxy that serves jobgate below a path takes the path away.
  const table = (asked: string) =>
    route && asked === (path === "" ? route[0] : `${path}${route[0]}`) ? route[1] : undefined;
  await server.mount(table);
  onTestFinished(() => server.unmount(table));
  const publicUrl = `http://${server.address}${path}`;
  route = signerAt(publicUrl).signer.didRoute;
  const did = `did:web:${encodeURIComponent(server.address)}${path.replace("/", ":")}`;
  const key = await extractPublicKeyFromKid(`${did}#key`);
  const { x = "", y = "" } = (key as KeyObject).export({ format: "jwk" });
  const hex = [x, y].map((part) => Buffer.from(part, "base64url").toString("hex")).join("");
  expect(publicKeyToAddress(`0x04${hex}`)).toBe(accounts.stranger.address);
  const document = await (await fetch(`${publicUrl}${route[0]}`)).json();
  expect(document).toMatchObject({
    id: did,
    verificationMethod: [{}, { blockchainAccountId: `eip155:1:${accounts.stranger.address}` }],
    assertionMethod: [`${did}#key`, `${did}#account`],
  });
});
