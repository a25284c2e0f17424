import { getTransactionDecoder, getTransactionEncoder, partiallySignTransaction } from "@solana/kit";
import type { Page } from "playwright-core";
import { solanaAccount } from "./solana-cluster.ts";

/** A wallet of a browser for Solana, whose owner says yes unless `refuses` is set. */
export interface SolanaWallet {
  readonly name: string;
  /** Number of its account. */
  readonly account: number;
  /** Networks that the wallet knows. */
  readonly chains: readonly string[];
  /** Networks that its account is for. */
  accountChains: readonly string[];
  readonly versions: readonly (string | number)[];
  /** Error of the wallet when it is asked to sign. */
  refuses: { readonly message: string; readonly code?: number } | undefined;
  /** Runs while the owner reads what the wallet shows. */
  whileSigning: () => Promise<unknown>;
  /** Networks that the page asked signatures for, in order. */
  readonly signedFor: string[];
  /** Transactions as the wallet signed them, in base64. */
  readonly signed: string[];
}

/** Registers a wallet in every document that the page opens, as the Wallet Standard has it. */
export async function installSolanaWallet(
  page: Page,
  options: Partial<SolanaWallet> = {},
): Promise<SolanaWallet> {
  const wallet: SolanaWallet = {
    name: "Sun Wallet",
    account: 2,
    chains: ["solana:mainnet", "solana:devnet", "solana:testnet"],
    accountChains: options.chains ?? ["solana:devnet"],
    versions: ["legacy", 0],
    refuses: undefined,
    whileSigning: async () => {},
    signedFor: [],
    signed: [],
    ...options,
  };
  const { address, keyPair } = await solanaAccount(wallet.account);
  const answer = async (method: string, [transaction = "", chain = ""]: readonly string[]) => {
    if (method === "connect") return wallet.accountChains;
    wallet.signedFor.push(chain);
    await wallet.whileSigning();
    if (wallet.refuses !== undefined) return { error: wallet.refuses };
    const sent = getTransactionDecoder().decode(Buffer.from(transaction, "base64"));
    const signed = getTransactionEncoder().encode(await partiallySignTransaction([keyPair], sent));
    wallet.signed.push(Buffer.from(signed as Uint8Array).toString("base64"));
    return wallet.signed.at(-1);
  };
  const functionName = `askSolana${wallet.name.replace(/\W/g, "")}`;
  await page.exposeFunction(functionName, (method: string, ...params: string[]) => answer(method, params));
  const icon =
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='4' fill='%239945ff'/%3E%3C/svg%3E";
  await page.addInitScript({
    content: `{
const account = { address: ${JSON.stringify(address)}, features: ["solana:signTransaction"] };
const connect = async () => ({ accounts: [{ ...account, chains: await ${functionName}("connect") }] });
const signTransaction = async ({ account, transaction, chain }) => {
  const answer = await ${functionName}("sign", btoa(String.fromCharCode(...transaction)), chain);
  if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
  return [{ signedTransaction: Uint8Array.from(atob(answer), (char) => char.charCodeAt(0)) }];
};
const wallet = Object.freeze({
  version: "1.0.0",
  name: ${JSON.stringify(wallet.name)},
  icon: ${JSON.stringify(icon)},
  chains: ${JSON.stringify(wallet.chains)},
  accounts: [],
  features: {
    "standard:connect": { version: "1.0.0", connect },
    "solana:signTransaction": {
      version: "1.0.0",
      supportedTransactionVersions: ${JSON.stringify(wallet.versions)},
      signTransaction,
    },
  },
});
const callback = ({ register }) => register(wallet);
dispatchEvent(new CustomEvent("wallet-standard:register-wallet", { detail: callback }));
addEventListener("wallet-standard:app-ready", ({ detail }) => callback(detail));
}`,
  });
  return wallet;
}
