import { type Hex, hashMessage, isErc6492Signature, parseErc6492Signature } from "viem";
import { parseSignatureHex, recoverSigner } from "../../chain/account-signature.ts";
import type { AccountProof } from "../../x402/methods/method.ts";

const NETWORK = /^eip155:[1-9][0-9]{0,14}$/;

export function isEvmNetwork(network: string): boolean {
  return NETWORK.test(network);
}

/** Sign-in with Ethereum (ERC-4361), by plain accounts. */
export const EVM_SIGN_IN: AccountProof = {
  type: "eip191",
  accounts: "Ethereum",
  isAddress: (text) => /^0x[0-9a-fA-F]{40}$/.test(text),
  isSignature: (text) => parseSignatureHex(text) !== undefined,
  async isSigned(text, { address, signature }) {
    const hex = parseSignatureHex(signature);
    return hex !== undefined && (await recoverSigner(hashMessage(text), hex)) === address.toLowerCase();
  },
};

/** Returns the call that asks an account's contract to approve a signature of a text. */
export function contractQuestion(text: string, account: string, signature: string) {
  const hex = parseSignatureHex(signature) ?? "0x";
  return { account: account as Hex, hash: hashMessage(text), signature: innerSignature(hex) };
}

/**
 * Removes the instructions to deploy the account's contract (ERC-6492), because the contract of an account that has paid is
 * deployed.
 */
function innerSignature(signature: Hex): Hex {
  if (!isErc6492Signature(signature)) return signature;
  try {
    return parseErc6492Signature(signature).signature;
  } catch {
    return signature;
  }
}
