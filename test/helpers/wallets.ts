import {
  type Address,
  concat,
  encodeAbiParameters,
  encodeFunctionData,
  getContractAddress,
  type Hex,
  hashTypedData,
  parseAbi,
  parseAbiParameters,
  serializeErc6492Signature,
} from "viem";
import { accounts, type TestAccount } from "./accounts.ts";
import { type Anvil, sendTransaction } from "./anvil.ts";
import { compileSolidity } from "./solidity.ts";

const CONSTRUCTORS = {
  OwnedWallet: parseAbiParameters("address owner"),
  OffchainWallet: parseAbiParameters("string url"),
  Answers: parseAbiParameters("bytes answer"),
  HostileWallet: parseAbiParameters("bool burnsGas"),
  WalletFactory: [],
};

/** Deploys a contract of Wallets.sol with its one constructor argument. */
export async function deployWallet(options: {
  readonly anvil: Anvil;
  readonly name: keyof typeof CONSTRUCTORS;
  readonly argument?: string | boolean;
}): Promise<Address> {
  const { anvil, name, argument } = options;
  const data = await creationCode(name, argument);
  const { contractAddress } = await sendTransaction({ anvil, from: accounts.deployer, data });
  if (!contractAddress) throw new Error(`${name} was not deployed`);
  return contractAddress;
}

async function creationCode(name: keyof typeof CONSTRUCTORS, argument?: string | boolean): Promise<Hex> {
  const code = (await compileSolidity("Wallets.sol"))[name];
  if (code === undefined) throw new Error(`Wallets.sol holds no ${name}`);
  const values = argument === undefined ? [] : [argument];
  return concat([code, encodeAbiParameters(CONSTRUCTORS[name] as readonly { type: string }[], values)]);
}

/** Factory that the facilitator of the tests lets deploy wallets (ERC-6492). */
export const ALLOWED_FACTORY: Address = "0x00000000000000000000000000000000000fac70";

/** Puts a factory at {@link ALLOWED_FACTORY}. */
export async function installAllowedFactory({ client }: Anvil): Promise<void> {
  const { data } = await client.call({ data: await creationCode("WalletFactory") });
  if (data === undefined) throw new Error("anvil did not run the creation code of WalletFactory");
  await client.setCode({ address: ALLOWED_FACTORY, bytecode: data });
}

const walletAbi = parseAbi(["function approve(bytes32 hash, bool isApproved)"]);
const factoryAbi = parseAbi(["function deploy(address owner) returns (address)"]);

/** How a wallet's signature is written, from its owner's and the hash that was signed. */
export type SignatureForm = (signature: Hex, hash: Hex) => Hex | Promise<Hex>;

/** An account that pays from its `OwnedWallet`. */
export function walletAccount(
  address: Address,
  owner: TestAccount,
  form: SignatureForm = (signature) => signature,
): TestAccount {
  const signTypedData: TestAccount["signTypedData"] = async (data) =>
    form(await owner.signTypedData(data), hashTypedData(data));
  return { ...owner, address, signTypedData };
}

/** Approves a hash on the chain, which makes a signature of no bytes do, or takes that back. */
export async function approveOnChain(options: {
  readonly anvil: Anvil;
  readonly wallet: Address;
  readonly owner: TestAccount;
  readonly hash: Hex;
  readonly isApproved?: boolean;
}): Promise<void> {
  const { anvil, wallet, owner, hash, isApproved = true } = options;
  const data = encodeFunctionData({ abi: walletAbi, functionName: "approve", args: [hash, isApproved] });
  await sendTransaction({ anvil, from: owner, to: wallet, data });
}

/** A wallet whose address can have money before it has code. */
export type UndeployedWallet = TestAccount & { deploy(anvil: Anvil): Promise<void> };

/** Returns the wallet of an owner that `factory` deploys when its first payment is settled (ERC-6492). */
export async function undeployedWallet(factory: Address, owner: TestAccount): Promise<UndeployedWallet> {
  const bytecode = await creationCode("OwnedWallet", owner.address);
  const address = getContractAddress({ opcode: "CREATE2", from: factory, salt: "0x00", bytecode });
  const data = encodeFunctionData({ abi: factoryAbi, functionName: "deploy", args: [owner.address] });
  const account = walletAccount(address, owner, (signature) =>
    serializeErc6492Signature({ address: factory, data, signature }),
  );
  const deploy = async (anvil: Anvil) => {
    await sendTransaction({ anvil, from: accounts.stranger, to: factory, data });
  };
  return { ...account, deploy };
}
