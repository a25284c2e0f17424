/** @import { PricedToken, Requirements, SignPayment, Wallet } from "../../../page/tools/chains.ts" */
/** @import { EvmWallet, Provider } from "./data.js" */
import { chainIdOf, networkName } from "./evm-networks.js";
import { isPermit2, PERMIT2, paymentFor } from "./evm-payment.js";
import { tokenAmount } from "./money.js";

/** Most wallets that are shown, because an extension can announce any number of wallets. */
const MAX_WALLETS = 20;
/** Selectors of contract views that return token units. */
const BALANCE_OF = "0x70a08231";
const ALLOWANCE = "0xdd62ed3e";

/** Error for a wallet that does not pay. The message is for the buyer. */
class WalletProblem extends Error {}

/**
 * Finds the wallets of this browser (EIP-6963); without any, the wallet in `window.ethereum`.
 * @param {(wallets: readonly Wallet[]) => void} show is called with all wallets each time that another is found
 */
export function findWallets(show) {
  /** @type {Map<string, Wallet>} */
  const found = new Map();
  addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider } = /** @type {CustomEvent} */ (event).detail ?? {};
    if (typeof info?.uuid !== "string" || typeof provider?.request !== "function") return;
    if (found.size >= MAX_WALLETS && !found.has(info.uuid)) return;
    const icon = String(info.icon ?? "");
    const id = info.uuid;
    // An icon with another address is not loaded, because its host would learn who opens the page.
    const shown = icon.startsWith("data:image/") ? icon : undefined;
    found.set(id, walletOf({ name: String(info.name ?? "Wallet"), provider }, id, shown));
    show([...found.values()]);
  });
  dispatchEvent(new Event("eip6963:requestProvider"));
  const useLegacy = () => {
    const { ethereum } = /** @type {{ ethereum?: Provider }} */ (/** @type {unknown} */ (globalThis));
    if (found.size > 0 || typeof ethereum?.request !== "function") return;
    show([walletOf({ name: "Browser wallet", provider: ethereum }, "legacy")]);
  };
  useLegacy();
  // Wallets that are injected late dispatch this event.
  addEventListener("ethereum#initialized", useLegacy, { once: true });
}

/** @param {EvmWallet} wallet @param {string} id @param {string} [icon] @returns {Wallet} */
function walletOf(wallet, id, icon) {
  return { id, name: wallet.name, icon, connect: (offer, token) => connect(wallet, offer, token) };
}

/**
 * Connects an account of the wallet on the offer's network that has enough of the token.
 * @param {EvmWallet} wallet
 * @param {Requirements} offer
 * @param {PricedToken} token
 * @returns {Promise<SignPayment>}
 */
async function connect(wallet, offer, token) {
  const account = await accountOf(wallet);
  await switchTo(wallet, offer.network);
  const balance = await readUnits(wallet, offer.asset, BALANCE_OF, account);
  if (balance !== undefined && balance < BigInt(offer.amount)) {
    throw new WalletProblem(
      `This account has too little: ${tokenAmount(token, balance)} on ${networkName(token.network)}, where the job costs ${tokenAmount(token, token.amount)}. Choose another account in the wallet, or get some ${token.symbol}. Nothing was paid.`,
    );
  }
  if (isPermit2(offer)) {
    const allowance = await readUnits(wallet, offer.asset, ALLOWANCE, account, PERMIT2);
    if (allowance !== undefined && allowance < BigInt(offer.amount)) {
      throw new WalletProblem(
        `This account has not allowed Permit2 to move its ${token.symbol}, which this way to pay needs once. Approve the contract ${PERMIT2} for the token in a wallet app, or pay in another way. Nothing was paid.`,
      );
    }
  }
  return async (nowSecs) => {
    const { payload, typedData } = paymentFor(offer, account, nowSecs);
    return { signature: await signTypedData(wallet, account, typedData), ...payload };
  };
}

/** Asks the wallet for its account. @param {EvmWallet} wallet @returns {Promise<`0x${string}`>} */
async function accountOf({ name, provider }) {
  const [account] = /** @type {unknown[]} */ (await ask(provider, "eth_requestAccounts"));
  if (typeof account === "string" && /^0x[0-9a-fA-F]{40}$/.test(account)) {
    return /** @type {`0x${string}`} */ (account);
  }
  throw new WalletProblem(`${name} named no account. Unlock it, choose one, and try again.`);
}

/** Switches the wallet to a network, if it is on another network. @param {EvmWallet} wallet @param {string} network CAIP-2 */
async function switchTo({ name, provider }, network) {
  const wanted = chainIdOf(network);
  const isThere = async () => Number(await ask(provider, "eth_chainId")) === wanted;
  if (await isThere()) return;
  try {
    await ask(provider, "wallet_switchEthereumChain", { chainId: `0x${wanted.toString(16)}` });
  } catch (error) {
    if (error instanceof WalletProblem && error.cause !== 4902) throw error;
    throw new WalletProblem(
      `${name} does not know ${networkName(network)}. Add the network there (chain id ${wanted}), and try again.`,
    );
  }
  if (await isThere()) return;
  throw new WalletProblem(
    `${name} is on the wrong network. Change it to ${networkName(network)}, and try again.`,
  );
}

/**
 * Reads units of a token through the wallet. Returns undefined if the wallet cannot read them. Then the payment itself shows whether they are enough.
 * @param {EvmWallet} wallet
 * @param {string} asset
 * @param {string} selector
 * @param {...string} addresses
 */
async function readUnits({ provider }, asset, selector, ...addresses) {
  try {
    const words = addresses.map((address) => address.slice(2).toLowerCase().padStart(64, "0"));
    const data = selector + words.join("");
    return BigInt(
      /** @type {string} */ (
        await provider.request({ method: "eth_call", params: [{ to: asset, data }, "latest"] })
      ),
    );
  } catch {
    return undefined;
  }
}

/**
 * Asks the wallet to sign typed data (EIP-712).
 * @param {EvmWallet} wallet
 * @param {string} account
 * @param {object} typedData
 */
async function signTypedData({ name, provider }, account, typedData) {
  const signature = await ask(provider, "eth_signTypedData_v4", account, JSON.stringify(typedData));
  if (typeof signature !== "string" || !/^0x([0-9a-fA-F]{2}){65,}$/.test(signature)) {
    throw new WalletProblem(`${name} gave something that is not a signature. Nothing was paid.`);
  }
  // Some hardware wallets end the signature with 0 or 1, but the token's contract expects 27 or 28.
  const v = Number.parseInt(signature.slice(130), 16);
  return signature.length === 132 && v < 2 ? signature.slice(0, 130) + (v + 27).toString(16) : signature;
}

/** @param {Provider} provider @param {string} method @param {...unknown} params */
async function ask(provider, method, ...params) {
  try {
    return await provider.request({ method, params });
  } catch (error) {
    const { code, message } = /** @type {{ code?: number, message?: string }} */ (error ?? {});
    const words = {
      4001: "You rejected the request in the wallet. Nothing was paid.",
      4100: "The wallet has not allowed this page to use the account. Nothing was paid.",
      4900: "The wallet is not connected to any network. Nothing was paid.",
      [-32002]: "The wallet has an open request already. Answer it there, and try again.",
    }[code ?? 0];
    throw new WalletProblem(
      words ?? `The wallet says: ${message ?? "it cannot do this"}. Nothing was paid.`,
      {
        cause: code,
      },
    );
  }
}
