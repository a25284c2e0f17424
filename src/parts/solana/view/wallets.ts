import type { PricedToken, Requirements, SignPayment, Wallet } from "../../../page/tools/chains.ts";
import { isOnCurve, toBase58, tokenAccountInputs } from "../portable/addresses.ts";
import { clusterOf } from "../portable/clusters.ts";
import { type TransferParts, transferMessage, transferTransaction } from "../portable/transfer.ts";
import { onStandardWallet, type StandardAccount, type StandardWallet } from "./wallet-standard.ts";

/** Bound on the wallets that are shown, because any extension can register as many as it likes. */
const MAX_WALLETS = 20;
/** Time in which a blockhash certainly expires no transaction: 150 blocks of 0.4 s, less the time that sending takes. */
const MAX_SIGNING_MS = 55_000;

/**
 * Finds the wallets of this browser (Wallet Standard).
 * @param show is called with all wallets whenever one is found
 */
export function findWallets(show: (wallets: readonly Wallet[]) => void): void {
  const found: Wallet[] = [];
  onStandardWallet((wallet) => {
    if (found.length >= MAX_WALLETS) return;
    const { name } = wallet;
    const icon = String(wallet.icon ?? "");
    found.push({
      id: String(found.length),
      name,
      // Another address would reveal to its host who views the job.
      icon: icon.startsWith("data:image/") ? icon : undefined,
      connect: (offer, token) => connect(wallet, offer, token),
    });
    show([...found]);
  });
}

/** Connects an account of the wallet on the offer's cluster. */
async function connect(
  wallet: StandardWallet,
  { network, asset, payTo, amount, extra }: Requirements,
  { decimals }: PricedToken,
): Promise<SignPayment> {
  const offeredAt = performance.now();
  const { feePayer, memo, recentBlockhash } = extra;
  if (feePayer === undefined || memo === undefined || recentBlockhash === undefined || decimals === undefined)
    throw new Error("The seller cannot reach Solana now. Nothing was paid: try again in a while.");
  if (!isSecureContext)
    throw new Error("This page was not loaded over https, which wallets for Solana need. Nothing was paid.");
  const account = await accountOf(wallet, network);
  const transfer: TransferParts = {
    feePayer,
    payer: account.address,
    source: await tokenAccountOf(account.address, asset),
    mint: asset,
    destination: await tokenAccountOf(payTo, asset),
    amount: BigInt(amount),
    decimals,
    memo,
    blockhash: recentBlockhash,
  };
  return async () => {
    const transaction = await signTransfer(wallet, account, transfer, clusterOf(network).chain);
    if (performance.now() - offeredAt > MAX_SIGNING_MS)
      throw new Error(
        "This took so long that the network would no longer take the payment. Nothing was paid: try again, and sign within a minute.",
      );
    return { transaction: btoa(String.fromCharCode(...transaction)) };
  };
}

/** Asks the wallet for its account on a cluster. */
async function accountOf(wallet: StandardWallet, network: string): Promise<StandardAccount> {
  const { chain, title } = clusterOf(network);
  const { name, chains, features } = wallet;
  if (!chains.includes(chain))
    throw new Error(`${name} does not know ${title}. Choose another wallet. Nothing was paid.`);
  const { accounts } = await ask(wallet, () => features["standard:connect"].connect());
  const [account] = accounts;
  if (account === undefined)
    throw new Error(`${name} named no account. Unlock it, choose one, and try again.`);
  const there = accounts.find((one) => one.chains.includes(chain));
  if (there !== undefined) return there;
  throw new Error(`${name} is on the wrong network. Change it to ${title}, and try again.`);
}

/** Has the wallet sign. The wallet may add assertions of its own to the transaction. */
async function signTransfer(
  wallet: StandardWallet,
  account: StandardAccount,
  transfer: TransferParts,
  chain: string,
): Promise<Uint8Array> {
  const transaction = transferTransaction(transferMessage(transfer));
  const { signTransaction } = wallet.features["solana:signTransaction"];
  const [signed] = await ask(wallet, () => signTransaction({ account, transaction, chain }));
  const bytes = Uint8Array.from(signed?.signedTransaction ?? []);
  // The signatures of the fee payer and of the owner follow the number of signatures.
  if (bytes.subarray(65, 129).some((byte) => byte !== 0)) return bytes;
  throw new Error(`${wallet.name} gave something that is not a signature. Nothing was paid.`);
}

/** Wallets have no common code for a refusal, but most use these words. */
const REFUSAL = /\b(reject|denied|declin|cancel)/i;

async function ask<T>({ name }: StandardWallet, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
    if (code === 4001 || REFUSAL.test(String(message)))
      throw new Error("You rejected the request in the wallet. Nothing was paid.");
    throw new Error(`${name} says: ${message ?? "it cannot do this"}. Nothing was paid.`);
  }
}

/** Returns the account of the SPL Token program that holds a token for its owner. */
async function tokenAccountOf(owner: string, mint: string): Promise<string> {
  for (const input of tokenAccountInputs(owner, mint)) {
    const account = new Uint8Array(await crypto.subtle.digest("SHA-256", input));
    if (!isOnCurve(account)) return toBase58(account);
  }
  throw new Error(`${owner} can have no account for the token. Nothing was paid.`);
}
