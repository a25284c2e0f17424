import { accounts } from "./accounts.ts";
import { type Anvil, sendTransaction } from "./anvil.ts";
import { compileSolidity } from "./solidity.ts";
import { eip3009Token, type Token } from "./usdc.ts";

/**
 * - `SilentOnUsedNonce`: a transfer with a used nonce succeeds and does nothing.
 * - `MovesNothing`: a transfer uses up its authorization, emits `AuthorizationUsed`, and moves nothing.
 * - `TakesFee`: a tenth of each transfer goes to the token itself.
 */
export type TokenFault = "SilentOnUsedNonce" | "MovesNothing" | "TakesFee";

/** Deploys an EIP-3009 token that breaks one promise: name "Faulty", version "1", 6 decimals. Anyone may mint. */
export async function deployFaultyToken(options: {
  readonly anvil: Anvil;
  readonly fault: TokenFault;
}): Promise<Token> {
  const { anvil, fault } = options;
  const data = (await compileSolidity("FaultyTokens.sol"))[fault];
  if (data === undefined) throw new Error(`FaultyTokens.sol holds no ${fault}`);
  const { contractAddress } = await sendTransaction({ anvil, from: accounts.deployer, data });
  if (!contractAddress) throw new Error(`${fault} was not deployed`);
  return eip3009Token({ anvil, address: contractAddress, name: "Faulty", version: "1", decimals: 6 });
}
