import { type KeyPairSigner, signBytes } from "@solana/kit";
import type { PaymentRequirements } from "@x402/core/types";
import { expect, test } from "vitest";
import { tokenAccountOf } from "../../../../src/parts/solana/addresses.ts";
import {
  type TransferParts,
  transferMessage,
  transferTransaction,
} from "../../../../src/parts/solana/portable/transfer.ts";
import { parseTransaction } from "../../../../src/parts/solana/transaction.ts";
import { solanaAccount } from "../../../helpers/solana-cluster.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "../harness.ts";

const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() => startSolanaShop(parts));

const partsOf = ({ asset, payTo, amount, extra }: PaymentRequirements, payer: string): TransferParts => ({
  feePayer: extra.feePayer as string,
  payer,
  source: tokenAccountOf(payer, asset),
  mint: asset,
  destination: tokenAccountOf(payTo, asset),
  amount: BigInt(amount),
  decimals: 6,
  memo: extra.memo as string,
  blockhash: extra.recentBlockhash as string,
});

async function sign(message: Uint8Array, { keyPair }: KeyPairSigner): Promise<string> {
  const signature = Uint8Array.from(await signBytes(keyPair.privateKey, message));
  return Buffer.from(transferTransaction(message, signature)).toString("base64");
}

test("A transfer has the instructions of the official client, and buys a job through the official facilitator", async () => {
  const payer = await solanaAccount(2);
  const official = await shop.sign();
  const { transaction } = official.payload as { readonly transaction: string };
  const expected = parseTransaction(Buffer.from(transaction, "base64"));
  const message = transferMessage(partsOf(official.accepted, payer.address));
  const built = await sign(message, payer);
  const { instructions, blockhash, accounts, signatures } = parseTransaction(Buffer.from(built, "base64"));
  expect(instructions).toEqual(expected.instructions);
  expect({ blockhash, signers: accounts.slice(0, 2) }).toEqual({
    blockhash: expected.blockhash,
    signers: expected.accounts.slice(0, 2),
  });
  expect(signatures[0]).toEqual(Buffer.alloc(64));

  expect(await shop.send({ ...official, payload: { transaction: built } })).toMatchObject({ status: 202 });
  expect(await parts.cluster.balanceOf(parts.seller, parts.mint)).toBe(PRICE);
});

test("Amounts and decimals of any size, and a long memo, are read as they were written", async () => {
  const { accepts } = await shop.offers();
  const usual = partsOf(accepts[0] as PaymentRequirements, parts.payer);
  const rare = { ...usual, amount: 2n ** 64n - 1n, decimals: 255, memo: "é".repeat(80) };
  const { instructions } = parseTransaction(transferTransaction(transferMessage(rare)));
  const [transfer, memo] = instructions.slice(2);
  expect(Buffer.from(transfer?.data ?? []).toString("hex")).toBe(`0c${"ff".repeat(9)}`);
  expect(Buffer.from(memo?.data ?? []).toString()).toBe(rare.memo);
});

test("A transfer to the account that it leaves, or that its fee payer makes, is refused", async () => {
  const { accepts } = await shop.offers();
  const usual = partsOf(accepts[0] as PaymentRequirements, parts.payer);
  expect(() => transferMessage({ ...usual, destination: usual.source })).toThrow("names an account twice");
  expect(() => transferMessage({ ...usual, payer: usual.feePayer })).toThrow("names an account twice");
});
