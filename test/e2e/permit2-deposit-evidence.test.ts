import { PERMIT2_ADDRESS } from "@x402/evm";
import {
  type Address,
  encodeAbiParameters,
  encodeFunctionData,
  type Hex,
  parseAbi,
  parseAbiParameters,
} from "viem";
import { beforeAll, expect, test } from "vitest";
import type { AcceptedToken } from "../../src/config/config.ts";
import { channelIdOf } from "../../src/parts/channels/hashes.ts";
import { CHANNELS } from "../../src/parts/channels/method.ts";
import { PERMIT2 } from "../../src/parts/permit2/method.ts";
import { Methods } from "../../src/x402/methods/methods.ts";
import { ChainEvidence } from "../../src/x402/settlement/chain-evidence.ts";
import { accounts } from "../helpers/accounts.ts";
import { borrowAnvil, sendTransaction } from "../helpers/anvil.ts";
import { type ChannelConfig, installChannels } from "../helpers/channels.ts";
import { approvePermit2, deployPlainToken, installPermit2, type PlainToken } from "../helpers/permit2.ts";
import { batchCall, type ContractCall, cancelCall, inOneBlock } from "../helpers/permit2-calls.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { acceptedToken, intentOf, offerOf } from "../x402/payment-fixtures.ts";

const CHANNELS_ADDRESS = "0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003";
const COLLECTOR = "0x4020425FAf3B746C082C2f942b4E5159887B0005";
const { payer, payTo, stranger } = accounts;

const anvil = startBeforeAll(borrowAnvil);
let token: PlainToken;
let evidence: ChainEvidence;

beforeAll(async () => {
  await installPermit2(anvil);
  await installChannels(anvil);
  token = await deployPlainToken(anvil);
  await token.mint(payer.address, 1_000_000n);
  await approvePermit2({ anvil, token: token.address, account: payer });
  evidence = new ChainEvidence({
    methods: new Methods([CHANNELS, PERMIT2]),
    tokens: [{ ...acceptedToken(anvil, named(), anvil.rpcUrl), transferMethod: "channel" } as AcceptedToken],
    rpcTimeoutMs: 30_000,
    secondLookAfterMs: 100,
  });
});

const named = () => ({ ...token, name: "", version: "", decimals: 6 }) as never;

const abi = parseAbi([
  "struct Config { address payer; address payerAuthorizer; address receiver; address receiverAuthorizer; address token; uint40 withdrawDelay; bytes32 salt; }",
  "function deposit(Config config, uint128 amount, address collector, bytes data)",
  "function multicall(bytes[] data)",
]);

let nonces = 1_000n;

/** Signs a deposit by Permit2, as the official client does. @returns the call that makes it, and its journalled payment */
async function sign({
  amount = 500n,
  nonce = ++nonces,
  salt = 0,
  validSecs = 300,
  collector = COLLECTOR,
}: {
  readonly amount?: bigint;
  readonly nonce?: bigint;
  /** Each salt is of another channel. */
  readonly salt?: number;
  readonly validSecs?: number;
  readonly collector?: Address;
} = {}) {
  const { timestamp, number } = await anvil.client.getBlock();
  const deadline = timestamp + BigInt(validSecs);
  const channelConfig: ChannelConfig = {
    ...{ payer: payer.address, payerAuthorizer: payer.address, receiver: payTo.address },
    ...{ receiverAuthorizer: stranger.address, token: token.address, withdrawDelay: 900 },
    salt: `0x${String(salt).padStart(64, "0")}`,
  };
  const spelled = Object.entries(channelConfig).map(([key, value]) => [
    key,
    typeof value === "string" ? value.toLowerCase() : value,
  ]);
  const channelId = channelIdOf(anvil.chainId, Object.fromEntries(spelled));
  const permitted = { token: token.address, amount };
  const signature = await payer.signTypedData({
    domain: { name: "Permit2", chainId: anvil.chainId, verifyingContract: PERMIT2_ADDRESS },
    types: {
      PermitWitnessTransferFrom: [
        { name: "permitted", type: "TokenPermissions" },
        { name: "spender", type: "address" },
        { name: "nonce", type: "uint256" },
        { name: "deadline", type: "uint256" },
        { name: "witness", type: "DepositWitness" },
      ],
      TokenPermissions: [
        { name: "token", type: "address" },
        { name: "amount", type: "uint256" },
      ],
      DepositWitness: [{ name: "channelId", type: "bytes32" }],
    },
    primaryType: "PermitWitnessTransferFrom",
    message: { permitted, spender: COLLECTOR, nonce, deadline, witness: { channelId } },
  });
  const data = encodeAbiParameters(parseAbiParameters("uint256, uint256, bytes, bytes"), [
    nonce,
    deadline,
    signature,
    "0x",
  ]);
  const call: ContractCall = {
    target: CHANNELS_ADDRESS,
    callData: encodeFunctionData({
      abi,
      functionName: "deposit",
      args: [channelConfig, amount, collector, data],
    }),
  };
  const permit2Authorization = {
    from: payer.address,
    permitted: { token: token.address, amount: String(amount) },
    ...{ spender: COLLECTOR, nonce: String(nonce), deadline: String(deadline) },
    ...{ witness: { channelId }, signature },
  };
  const deposit = { amount: String(amount), authorization: { permit2Authorization } };
  const voucher = { channelId, maxClaimableAmount: "10", signature };
  const payload = { x402Version: 2, payload: { type: "deposit", channelConfig, voucher, deposit } };
  const intent = intentOf(offerOf(anvil, named()), payload as never, {
    ...{ transferMethod: "channel", payer: payer.address, nonce: `${channelId}:10:${nonce}` },
    ...{ digest: String(nonce), validBefore: String(deadline), fromBlock: number },
  });
  return { call, intent, nonce: String(nonce) };
}
type Signed = Awaited<ReturnType<typeof sign>>;

async function send({ target, callData }: ContractCall): Promise<Hex> {
  return (await sendTransaction({ anvil, from: stranger, to: target, data: callData })).transactionHash;
}

const look = ({ intent }: Signed, transaction?: string) =>
  until(async () => {
    const seen = await evidence.look(intent, transaction);
    return (seen.kind !== "open" || seen.isAlmostNotPaid !== true) && seen;
  });

const multicall = (...calls: readonly ContractCall[]): ContractCall => ({
  target: CHANNELS_ADDRESS,
  callData: encodeFunctionData({
    abi,
    functionName: "multicall",
    args: [calls.map(({ callData }) => callData)],
  }),
});

const UNUSED = { kind: "open", isUnused: true };
const USED_OTHERWISE = {
  kind: "not_paid",
  reason: "the authorization was used without the offered transfer",
};

test("A deposit is made by anyone's call of the contract for channels, whose facilitator may add a suffix to its data", async () => {
  const [plain, marked] = [await sign(), await sign()];
  expect(await look(plain)).toMatchObject(UNUSED);
  const suffixed = { ...marked.call, callData: `${marked.call.callData}62635f6a6f6267617465` as Hex };
  for (const [signed, call] of [
    [plain, plain.call],
    [marked, suffixed],
  ] as const) {
    const transaction = await send(call);
    expect(await look(signed)).toMatchObject({ kind: "paid", transaction });
    expect(await look(signed, transaction)).toMatchObject({ kind: "paid", transaction });
  }
});

test("A deposit is made within a contract's calls, and within a multicall of the contract for channels, each of several by its own nonce", async () => {
  const signed = [await sign(), await sign(), await sign(), await sign(), await sign()] as const;
  const [first, second, third, fourth, unused] = signed;
  const transaction = await send(batchCall([first.call, multicall(second.call, third.call)]));
  for (const one of [first, second, third])
    expect(await look(one)).toMatchObject({ kind: "paid", transaction });
  const direct = await send(multicall(fourth.call));
  expect(await look(fourth)).toMatchObject({ kind: "paid", transaction: direct });
  expect(await look(unused, transaction)).toMatchObject(UNUSED);
});

test("A permit that its payer cancels beside an equal deposit is not a deposit", async () => {
  const [made, cancelled] = [await sign(), await sign()];
  const [transaction] = await inOneBlock(anvil, [
    { call: made.call },
    { call: cancelCall(cancelled.nonce), from: payer },
  ]);
  expect(await look(made)).toMatchObject({ kind: "paid", transaction });
  for (const named of [undefined, transaction])
    expect(await look(cancelled, named)).toEqual({
      kind: "not_paid",
      reason: "the payer cancelled the authorization",
    });
});

test("A nonce that a deposit of another amount or in another channel has used makes no deposit", async () => {
  const nonce = ++nonces;
  const [wanted, less, elsewhere] = [
    await sign({ nonce }),
    await sign({ nonce, amount: 499n }),
    await sign({ nonce, salt: 1 }),
  ];
  const before = await anvil.client.snapshot();
  let transaction = await send(less.call);
  for (const named of [undefined, transaction]) expect(await look(wanted, named)).toEqual(USED_OTHERWISE);
  expect(await look(less)).toMatchObject({ kind: "paid", transaction });
  await anvil.client.revert({ id: before });
  // The multicall moves the wanted amount by another permit.
  const again = await anvil.client.snapshot();
  transaction = await send(multicall(less.call, (await sign()).call));
  for (const named of [undefined, transaction]) expect(await look(wanted, named)).toEqual(USED_OTHERWISE);
  await anvil.client.revert({ id: again });
  transaction = await send(elsewhere.call);
  for (const named of [undefined, transaction]) expect(await look(wanted, named)).toEqual(USED_OTHERWISE);
  expect(await look(elsewhere)).toMatchObject({ kind: "paid", transaction });
});

/** Code of a collector that moves the payer's tokens by an approval of its own, whatever it is given: `transferFrom(payer, caller, amount)`. */
const OWN_COLLECTOR =
  "0x6323b872dd60e01b60005260043560045233602452604435604452602060006064600060006024355af15000";

test("A deposit by another collector, whose call names the permit's nonce, does not use the permit", async () => {
  const collector = "0x00000000000000000000000000000000000c0112";
  await anvil.client.setCode({ address: collector, bytecode: OWN_COLLECTOR });
  const approve = parseAbi(["function approve(address spender, uint256 amount)"]);
  const data = encodeFunctionData({ abi: approve, args: [collector, 500n] });
  await sendTransaction({ anvil, from: payer, to: token.address, data });
  const before = await token.balanceOf(payer.address);
  const nonce = ++nonces;
  const [wanted, other] = [await sign({ nonce }), await sign({ nonce, collector })];
  const [made] = await inOneBlock(anvil, [
    { call: other.call },
    { call: cancelCall(wanted.nonce), from: payer },
  ]);
  expect(await token.balanceOf(payer.address)).toBe(before - 500n);
  for (const named of [undefined, made])
    expect(await look(wanted, named)).toMatchObject({ kind: "not_paid" });
});

test("A deposit can be made exactly at its deadline, and not a second later", async () => {
  const signed = await sign({ validSecs: 100 });
  const { validBefore } = signed.intent;
  for (const [timestamp, seen] of [
    [validBefore, UNUSED],
    [validBefore + 1, { kind: "not_paid", reason: "the authorization expired unused" }],
  ] as const) {
    await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(timestamp) });
    await anvil.client.mine({ blocks: 1 });
    expect(await look(signed)).toMatchObject(seen);
  }
});

test("A build without Permit2 says so of a journalled deposit", async () => {
  const { intent } = await sign();
  const methods = new Methods([CHANNELS]);
  expect(() => CHANNELS.authorizationOf?.(intent, methods)).toThrow('no transfer method "permit2"');
});
