/** The parts of the Wallet Standard that paying on Solana needs. */

/** A wallet of the browser, or a program that claims to be a wallet, so that none of its fields is certain. */
export interface StandardWallet {
  readonly name: string;
  /** A data URL. */
  readonly icon?: unknown;
  /** Networks by the names that wallets have for them: `solana:devnet`. */
  readonly chains: readonly string[];
  readonly features: {
    readonly "standard:connect": { connect(): Promise<{ readonly accounts: readonly StandardAccount[] }> };
    readonly "solana:signTransaction": {
      /** Versions that the wallet signs: `legacy` or a number. */
      readonly supportedTransactionVersions: readonly unknown[];
      signTransaction(input: {
        readonly account: StandardAccount;
        readonly transaction: Uint8Array;
        readonly chain: string;
      }): Promise<readonly { readonly signedTransaction: Uint8Array }[]>;
    };
  };
}

export interface StandardAccount {
  readonly address: string;
  readonly chains: readonly string[];
}

/**
 * Finds the wallets of this browser that sign transactions of version 0.
 * @param onFound receives each wallet, and each wallet that registers later
 */
export function onStandardWallet(onFound: (wallet: StandardWallet) => void): void {
  const known = new Set<unknown>();
  const api = Object.freeze({
    register(...wallets: readonly unknown[]) {
      for (const wallet of wallets) {
        if (known.has(wallet) || !canPay(wallet)) continue;
        known.add(wallet);
        onFound(wallet);
      }
      // A wallet that was removed rejects its requests.
      return () => {};
    },
  });
  addEventListener("wallet-standard:register-wallet", (event) => {
    const { detail: register } = event as CustomEvent<unknown>;
    if (typeof register === "function") register(api);
  });
  dispatchEvent(new CustomEvent("wallet-standard:app-ready", { detail: api }));
}

function canPay(wallet: unknown): wallet is StandardWallet {
  const { name, chains, features } = (wallet ?? {}) as Partial<StandardWallet>;
  const { "standard:connect": connecting, "solana:signTransaction": signing } = features ?? {};
  return (
    typeof name === "string" &&
    Array.isArray(chains) &&
    typeof connecting?.connect === "function" &&
    typeof signing?.signTransaction === "function" &&
    Array.isArray(signing.supportedTransactionVersions) &&
    signing.supportedTransactionVersions.includes(0)
  );
}
