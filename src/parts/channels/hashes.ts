import { type Hex, stringToBytes } from "viem";
import { keccak256 } from "../../chain/keccak.ts";
import { addressWord } from "../../x402/settlement/chain-logs.ts";

/** Address of x402's contract for channels, on every chain. */
export const CHANNELS_CONTRACT = "0x4020074e9df2ce1dee5a9c1b5c3f541d02a10003";
/** Contract that collects deposits by EIP-3009. */
export const DEPOSIT_COLLECTOR = "0x4020806089470a89826cb9fb1f4059150b550004";
/** Contract that collects deposits by Permit2. */
export const PERMIT2_COLLECTOR = "0x4020425faf3b746c082c2f942b4e5159887b0005";

/** Fields that identify a channel. Addresses and salt are in lower case. */
export interface ChannelConfig {
  readonly payer: string;
  /** Key that signs vouchers. */
  readonly payerAuthorizer: string;
  readonly receiver: string;
  /** Key that signs claims and refunds. */
  readonly receiverAuthorizer: string;
  readonly token: string;
  /** Duration of a withdrawal in seconds. */
  readonly withdrawDelay: number;
  readonly salt: string;
}

/** An amount that a claim takes from a channel, under a voucher. */
export interface ClaimEntry {
  readonly channelId: string;
  readonly maxClaimableAmount: bigint;
  /** Sum of all claims, including this claim. */
  readonly totalClaimed: bigint;
}

const CONFIG = typeHash(
  "ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)",
);
const VOUCHER = typeHash("Voucher(bytes32 channelId,uint128 maxClaimableAmount)");
const REFUND = typeHash("Refund(bytes32 channelId,uint256 nonce,uint128 amount)");
const ENTRY = typeHash("ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)");
const BATCH = typeHash(
  "ClaimBatch(ClaimEntry[] claims)ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)",
);
const DOMAIN = typeHash("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

/* The digests of x402's typed data (EIP-712), concatenated from words, because viem's general encoder takes 60 µs for each. */

/** Ids of recently used channels, because each voucher of a channel needs the same id. */
const ids = new Map<string, Hex>();
const MAX_IDS = 10_000;

/** Returns the id of a channel in lower case. */
export function channelIdOf(chainId: number, config: ChannelConfig): Hex {
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = config;
  const key = `${chainId} ${payer} ${payerAuthorizer} ${receiver} ${receiverAuthorizer} ${token} ${withdrawDelay} ${salt}`;
  const known = ids.get(key);
  if (known !== undefined) return known;
  const accounts = [payer, payerAuthorizer, receiver, receiverAuthorizer, token].map(addressWord);
  const id = typed(chainId, [CONFIG, ...accounts, word(BigInt(withdrawDelay)), salt.slice(2)]);
  const [oldest] = ids.keys();
  if (ids.size >= MAX_IDS && oldest !== undefined) ids.delete(oldest);
  ids.set(key, id);
  return id;
}

/** Returns the digest that a payer signs to pay a total amount from a channel. */
export function voucherDigest(chainId: number, channelId: string, maxClaimableAmount: bigint): Hex {
  return typed(chainId, [VOUCHER, channelId.slice(2), word(maxClaimableAmount)]);
}

/** Returns the digest that a seller signs to pay an amount back from a channel. */
export function refundDigest(
  chainId: number,
  {
    channelId,
    nonce,
    amount,
  }: { readonly channelId: string; readonly nonce: bigint; readonly amount: bigint },
): Hex {
  return typed(chainId, [REFUND, channelId.slice(2), word(nonce), word(amount)]);
}

/** Returns the digest that a seller signs to claim from channels. */
export function claimDigest(chainId: number, claims: readonly ClaimEntry[]): Hex {
  const entries = claims.map(({ channelId, maxClaimableAmount, totalClaimed }) =>
    hashOf([ENTRY, channelId.slice(2), word(maxClaimableAmount), word(totalClaimed)]),
  );
  return typed(chainId, [BATCH, hashOf(entries)]);
}

/** Returns the nonce of the EIP-3009 authorization that deposits in a channel. */
export function depositNonce(channelId: string, salt: string): Hex {
  return `0x${hashOf([channelId.slice(2), word(BigInt(salt))])}`;
}

const domains = new Map<number, string>();

function typed(chainId: number, struct: readonly string[]): Hex {
  let domain = domains.get(chainId);
  if (domain === undefined) {
    const names = ["x402 Batch Settlement", "1"].map((text) => keccak256(stringToBytes(text)).slice(2));
    domain = hashOf([DOMAIN, ...names, word(BigInt(chainId)), addressWord(CHANNELS_CONTRACT)]);
    domains.set(chainId, domain);
  }
  return `0x${hashOf(["1901", domain, hashOf(struct)])}`;
}

function typeHash(type: string): string {
  return keccak256(stringToBytes(type)).slice(2);
}

function word(value: bigint): string {
  return value.toString(16).padStart(64, "0");
}

function hashOf(words: readonly string[]): string {
  return keccak256(Buffer.from(words.join(""), "hex")).slice(2);
}
