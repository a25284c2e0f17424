import { type Address, encodeAbiParameters, type Hex, parseAbiParameters } from "viem";
import { accounts } from "./accounts.ts";
import { type Anvil, sendTransaction } from "./anvil.ts";
import { compileSolidity } from "./solidity.ts";

const CONSTRUCTORS = {
  OwnedWallet: parseAbiParameters("address owner"),
  OffchainWallet: parseAbiParameters("string url"),
  Answers: parseAbiParameters("bytes answer"),
};

/** Deploys a contract of Wallets.sol with its one constructor argument. */
export async function deployWallet(options: {
  readonly anvil: Anvil;
  readonly name: keyof typeof CONSTRUCTORS;
  readonly argument: string;
}): Promise<Address> {
  const { anvil, name, argument } = options;
  const code = (await compileSolidity("Wallets.sol"))[name];
  if (code === undefined) throw new Error(`Wallets.sol holds no ${name}`);
  const encoded = encodeAbiParameters(CONSTRUCTORS[name], [argument as Hex]);
  const data: Hex = `${code}${encoded.slice(2)}`;
  const { contractAddress } = await sendTransaction({ anvil, from: accounts.deployer, data });
  if (!contractAddress) throw new Error(`${name} was not deployed`);
  return contractAddress;
}
