import { decodeAbiParameters, decodeFunctionData, type Hex, parseAbi, parseAbiParameters } from "viem";
import * as z from "zod";
import { chainIdOf } from "../../chain/chain-client.ts";
import { EIP3009 } from "../../core/payment.ts";
import { Eip3009Authorization } from "../../x402/methods/eip3009.ts";
import type { Method } from "../../x402/methods/method.ts";
import { address, decimal, lowerCase, signature } from "../../x402/methods/payload-values.ts";
import type { Authorization, AuthorizedPayment } from "../../x402/settlement/authorization.ts";
import {
  CHANNELS_CONTRACT,
  type ChannelConfig,
  channelIdOf,
  DEPOSIT_COLLECTOR,
  depositNonce,
  PERMIT2_COLLECTOR,
} from "./hashes.ts";
import { PERMIT2_DEPOSITS } from "./store/row.ts";

const MAX_U128 = 2n ** 128n - 1n;

export const amount = decimal.refine(
  (digits) => BigInt(digits) <= MAX_U128,
  "expected an amount below 2^128",
);
export const word = z.string().regex(/^0x[0-9a-fA-F]{64}$/, "expected 0x and 64 hex digits");

const erc3009Authorization = z
  .object({ validAfter: decimal, validBefore: decimal, salt: word, signature })
  .strict();

const permit2Authorization = z
  .object({
    from: address,
    permitted: z.object({ token: address, amount }).strict(),
    spender: address,
    nonce: decimal,
    deadline: decimal,
    witness: z.object({ channelId: word }).strict(),
    signature,
  })
  .strict();

/** Shape of a deposit that clients send. */
export const depositPayload = z
  .object({
    amount,
    authorization: z.union([
      z.object({ erc3009Authorization }).strict(),
      z.object({ permit2Authorization }).strict(),
    ]),
  })
  .strict();

/** Money that a payer moves into a channel. */
export interface Deposit {
  /** Token units. */
  readonly amount: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  /** Identifies the deposit within the channel: the salt of an EIP-3009 authorization, or the nonce of a permit. */
  readonly id: string;
  /** Fields to which Permit2 binds the deposit. Undefined if the deposit is made by EIP-3009. */
  readonly permit:
    | Pick<z.output<typeof permit2Authorization>, "from" | "permitted" | "spender" | "witness">
    | undefined;
}

export function toDeposit({ amount, authorization }: z.output<typeof depositPayload>): Deposit {
  if ("erc3009Authorization" in authorization) {
    const { validAfter, validBefore, salt } = authorization.erc3009Authorization;
    return {
      amount: BigInt(amount),
      validAfter: BigInt(validAfter),
      validBefore: BigInt(validBefore),
      id: lowerCase(salt),
      permit: undefined,
    };
  }
  const permit = authorization.permit2Authorization;
  const { nonce: id, deadline } = permit;
  return { amount: BigInt(amount), validAfter: 0n, validBefore: BigInt(deadline), id, permit };
}

interface InChannel {
  readonly config: ChannelConfig;
  readonly channelId: string;
  readonly deposit: Deposit;
}

/**
 * Returns true if a deposit is made by an offer's transfer method, and moves its amount only into its channel. A deposit by
 * EIP-3009 has the channel in its nonce.
 */
export function movesInto({ config, channelId, deposit }: InChannel, transferMethod: unknown): boolean {
  const { amount, permit } = deposit;
  if (permit === undefined) return transferMethod === EIP3009.name;
  const { from, permitted, spender, witness } = permit;
  return (
    transferMethod === PERMIT2_DEPOSITS &&
    lowerCase(from) === config.payer &&
    lowerCase(permitted.token) === config.token &&
    BigInt(permitted.amount) === amount &&
    lowerCase(spender) === PERMIT2_COLLECTOR &&
    lowerCase(witness.channelId) === channelId
  );
}

/**
 * Returns the authorization that makes a deposit. Using the authorization makes the deposit. With EIP-3009, the nonce names the
 * channel, and only the collector of deposits can use it. With Permit2, the call that uses the nonce names the channel.
 */
export function authorizationOf(
  { channelId, deposit }: Omit<InChannel, "config">,
  payment: AuthorizedPayment,
  methods: { get(name: string): Method },
): Authorization | undefined {
  const { id, amount, validAfter, permit } = deposit;
  const of = (nonce: string, payTo: string) => ({
    ...payment,
    key: { ...payment.key, nonce },
    payTo,
    amount: String(amount),
    payload: JSON.stringify({ payload: { authorization: { validAfter: String(validAfter) } } }),
  });
  if (permit === undefined)
    return new Eip3009Authorization(of(depositNonce(channelId, id), DEPOSIT_COLLECTOR));
  const chainId = chainIdOf(payment.key.network);
  const collects = (input: string) => isDeposit(input, { chainId, channelId, amount, nonce: BigInt(id) });
  const collector = { contract: CHANNELS_CONTRACT, collects };
  return methods.get(PERMIT2_DEPOSITS).collectedBy?.(collector, of(id, CHANNELS_CONTRACT));
}

const calls = parseAbi([
  "struct Config { address payer; address payerAuthorizer; address receiver; address receiverAuthorizer; address token; uint40 withdrawDelay; bytes32 salt; }",
  "function deposit(Config config, uint128 amount, address collector, bytes data)",
  "function multicall(bytes[] data)",
]);
const permitData = parseAbiParameters("uint256 nonce, uint256 deadline, bytes signature, bytes approval");

/** Reports whether a call of the contract for channels makes a deposit by Permit2. */
function isDeposit(
  input: string,
  deposit: {
    readonly chainId: number;
    readonly channelId: string;
    readonly amount: bigint;
    readonly nonce: bigint;
  },
): boolean {
  try {
    const { functionName, args } = decodeFunctionData({ abi: calls, data: input as Hex });
    if (functionName === "multicall") return args[0].some((call) => isDeposit(call, deposit));
    const [config, amount, collector, data] = args;
    if (collector.toLowerCase() !== PERMIT2_COLLECTOR || amount !== deposit.amount) return false;
    const [nonce] = decodeAbiParameters(permitData, data);
    return nonce === deposit.nonce && channelIdOf(deposit.chainId, inLowerCase(config)) === deposit.channelId;
  } catch {
    // The contract has other functions, which make no deposit.
    return false;
  }
}

/** Returns a channel's configuration in the spelling that jobgate stores. */
export function inLowerCase(config: ChannelConfig): ChannelConfig {
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = config;
  return {
    payer: lowerCase(payer),
    payerAuthorizer: lowerCase(payerAuthorizer),
    receiver: lowerCase(receiver),
    receiverAuthorizer: lowerCase(receiverAuthorizer),
    token: lowerCase(token),
    withdrawDelay,
    salt: lowerCase(salt),
  };
}
