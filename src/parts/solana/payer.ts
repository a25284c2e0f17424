import { randomBytes } from "node:crypto";
import { Rpc } from "../../chain/rpc.ts";
import type { ExactOffer, NetworkPayer, Payer } from "../../core/network-payer.ts";
import { tokenAccountOf } from "./addresses.ts";
import { latestBlockhash, MINT_DECIMALS, readAccount } from "./chain.ts";
import { KEY_FORMS, readKey, type SolanaKey } from "./key.ts";
import { isAddress, PROGRAMS } from "./portable/addresses.ts";
import { transferMessage, transferTransaction } from "./portable/transfer.ts";

/** Longest time to wait for one answer of the RPC. */
const RPC_TIMEOUT_MS = 10_000;

/** Payments on Solana for a buyer who has a private key. */
export const SOLANA_PAYER: NetworkPayer = {
  key: KEY_FORMS,
  read(text) {
    const key = readKey(text);
    return key && { address: key.address, pay: (offer, known) => pay(key, offer, known) };
  },
};

async function pay(key: SolanaKey, offer: ExactOffer, known: Parameters<Payer["pay"]>[1]) {
  const { asset, payTo, amount, extra = {} } = offer;
  const { feePayer, memo = randomBytes(16).toString("hex") } = extra;
  const account = (name: string, value: unknown): string => {
    if (typeof value === "string" && isAddress(value)) return value;
    throw new Error(`it has no ${name} that is an account of Solana`);
  };
  if (!/^[0-9]+$/.test(amount)) throw new Error("its amount is not a whole number");
  if (typeof memo !== "string") throw new Error("its memo is not a text");
  const [mint, seller] = [account("asset", asset), account("payTo", payTo)];
  const message = transferMessage({
    feePayer: account("extra.feePayer", feePayer),
    payer: key.address,
    source: tokenAccountOf(key.address, mint),
    mint,
    destination: tokenAccountOf(seller, mint),
    amount: BigInt(amount),
    decimals: known.decimals ?? (await readDecimals(mint, known.rpcUrl)),
    memo,
    blockhash: account("blockhash", extra.recentBlockhash ?? (await readBlockhash(known.rpcUrl))),
  });
  return { transaction: Buffer.from(transferTransaction(message, key.sign(message))).toString("base64") };
}

async function readDecimals(mint: string, rpcUrl: string | undefined): Promise<number> {
  const found = await readAccount(connect(rpcUrl, `the decimals of ${mint}`), mint);
  const decimals = found?.data[MINT_DECIMALS];
  if (found?.owner === PROGRAMS.token && decimals !== undefined) return decimals;
  throw new Error(`its asset ${mint} is not a mint of the SPL Token program`);
}

async function readBlockhash(rpcUrl: string | undefined): Promise<string> {
  const { fields } = await latestBlockhash(connect(rpcUrl, "a blockhash, which the offer lacks"));
  return fields.recentBlockhash;
}

function connect(rpcUrl: string | undefined, wanted: string): Rpc {
  if (rpcUrl === undefined) throw new Error(`it takes --rpc-url to read ${wanted}`);
  return new Rpc({ rpcUrl, timeoutMs: RPC_TIMEOUT_MS });
}
