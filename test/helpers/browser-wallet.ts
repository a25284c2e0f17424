import type { Page } from "playwright-core";
import type { TestAccount } from "./accounts.ts";
import type { Anvil } from "./anvil.ts";

interface Call {
  readonly method: string;
  readonly params?: readonly unknown[];
}

/** A wallet of a browser, whose owner says yes to everything that is not in `refuses`. */
export interface BrowserWallet {
  /** Chain that the wallet is on. */
  chainId: number;
  /** Methods that the owner refuses, each with an error code. */
  readonly refuses: Map<string, number>;
  /** Methods that were called. */
  readonly asked: string[];
  /** Messages that were signed. */
  readonly signed: Readonly<Record<string, string>>[];
}

/** Asks the chain as a wallet's own RPC does. */
async function readChain({ rpcUrl }: Anvil, call: Call): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, ...call });
  const headers = { "content-type": "application/json" };
  const response = await fetch(rpcUrl, { method: "POST", headers, body });
  const { result } = (await response.json()) as { result: unknown };
  return result;
}

/** Announces a wallet to every document that the page opens, as EIP-6963 has it. */
export async function installWallet(
  page: Page,
  options: {
    readonly account: TestAccount;
    readonly anvil: Anvil;
    readonly name?: string;
    /** Sets `window.ethereum` and announces nothing, as old wallets do. */
    readonly isLegacy?: boolean;
  },
): Promise<BrowserWallet> {
  const { account, anvil, name = "Test Wallet", isLegacy = false } = options;
  const wallet: BrowserWallet = {
    chainId: anvil.chainId,
    refuses: new Map(),
    asked: [],
    signed: [],
  };

  async function answer({ method, params = [] }: Call): Promise<unknown> {
    switch (method) {
      case "eth_requestAccounts":
        return [account.address];
      case "eth_chainId":
        return `0x${wallet.chainId.toString(16)}`;
      case "wallet_switchEthereumChain":
        wallet.chainId = Number((params[0] as { chainId: string }).chainId);
        return null;
      case "eth_signTypedData_v4": {
        if (params[0] !== account.address) throw new Error(`another account: ${params[0]}`);
        const { domain, types, primaryType, message } = JSON.parse(params[1] as string);
        wallet.signed.push(message);
        return account.signTypedData({ domain, types, primaryType, message });
      }
      default:
        return readChain(anvil, { method, params });
    }
  }

  const functionName = `askWallet${name.replace(/\W/g, "")}`;
  await page.exposeFunction(functionName, async (call: Call) => {
    wallet.asked.push(call.method);
    const code = wallet.refuses.get(call.method);
    if (code !== undefined) return { error: { code, message: "User said no." } };
    return { result: await answer(call) };
  });
  const info = {
    uuid: `5f0b5c3e-${name}`,
    name,
    rdns: "com.example.wallet",
    icon: "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Crect width='8' height='8' rx='2' fill='%23e8833a'/%3E%3C/svg%3E",
  };
  await page.addInitScript({
    content: `{
const provider = {
  async request(call) {
    const { result, error } = await ${functionName}(call);
    if (error) throw Object.assign(new Error(error.message), { code: error.code });
    return result;
  },
};
if (${isLegacy}) globalThis.ethereum = provider;
else {
  const detail = Object.freeze({ info: ${JSON.stringify(info)}, provider });
  const announce = () => dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
  addEventListener("eip6963:requestProvider", announce);
  announce();
}
}`,
  });
  return wallet;
}
