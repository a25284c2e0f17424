import { encodeFunctionData, erc20Abi } from "viem";
import { describe, expect, it } from "vitest";
import type { Rpc, WordCall } from "../../../src/chain/rpc.ts";

import { PERMIT2_CONTRACT } from "../../../src/parts/permit2/contracts.ts";
import { payerFunds } from "../../../src/parts/permit2/funds.ts";
import { GAS_SPONSORING } from "../../../src/parts/permit2/gas-sponsoring.ts";
import { accounts } from "../../helpers/accounts.ts";
import { PERMIT2_USDC } from "./payments.ts";

const { payer } = accounts;
const { network, asset } = PERMIT2_USDC;
const CEILING = 50_000n;
const ALLOWANCE = 7n;
const NONCE = 3n;

/** Answers of a chain on which the payer has a balance above all ceilings. */
const rpc = {
  callForWord: async ({ data }: WordCall) => {
    if (data.startsWith("0xdd62ed3e")) return ALLOWANCE;
    return data.startsWith("0x7ecebe00") ? NONCE : 10n ** 12n;
  },
  call: async () => `0x${NONCE.toString(16)}`,
} as unknown as Rpc;

const key = { network, asset: asset.toLowerCase(), payer: payer.address.toLowerCase(), nonce: "1" };
const read = (extensions?: object) => payerFunds.read(rpc, { key, payload: JSON.stringify({ extensions }) });

const permit = (changes: object = {}) => ({
  eip2612GasSponsoring: {
    info: {
      ...GAS_SPONSORING.eip2612GasSponsoring?.info,
      from: payer.address,
      asset,
      spender: PERMIT2_CONTRACT,
      amount: String(CEILING),
      nonce: String(NONCE),
      deadline: "9999999999",
      signature: `0x${"11".repeat(65)}`,
      ...changes,
    },
  },
});

async function approval(nonce: bigint, spender = PERMIT2_CONTRACT) {
  const data = encodeFunctionData({
    abi: erc20Abi,
    functionName: "approve",
    args: [spender as `0x${string}`, CEILING],
  });
  const signedTransaction = await payer.signTransaction({
    ...{ to: asset as `0x${string}`, data, nonce: Number(nonce), chainId: 84532, gas: 60_000n },
    ...{ maxFeePerGas: 1n, maxPriorityFeePerGas: 1n },
  });
  return { erc20ApprovalGasSponsoring: { info: { from: payer.address, asset, signedTransaction } } };
}

describe("What a payer can pay through Permit2", () => {
  it("Is the allowance on the chain, without an extension or with an extension that comes back as it was declared", async () => {
    expect(await read()).toBe(ALLOWANCE);
    expect(await read(GAS_SPONSORING)).toBe(ALLOWANCE);
  });

  it("Is what a permit approves that the payment brings, until the permit is used", async () => {
    expect(await read(permit())).toBe(CEILING);
    expect(await read(permit({ nonce: String(NONCE - 1n) }))).toBe(ALLOWANCE);
    expect(await read(permit({ nonce: String(NONCE + 1n) }))).toBe(ALLOWANCE);
  });

  it("Is what a signed approval sets, until its transaction is sent", async () => {
    expect(await read(await approval(NONCE))).toBe(CEILING);
    expect(await read(await approval(NONCE - 1n))).toBe(ALLOWANCE);
  });

  it.each([
    ["another payer", permit({ from: accounts.stranger.address })],
    ["another token", permit({ asset: accounts.stranger.address })],
    ["another spender", permit({ spender: accounts.stranger.address })],
    ["no signature", permit({ signature: undefined })],
    ["no transaction", { erc20ApprovalGasSponsoring: { info: { from: payer.address, asset } } }],
  ])("Is the allowance on the chain where the extension has %s", async (_what, extensions) => {
    expect(await read(extensions)).toBe(ALLOWANCE);
  });

  it("Is the allowance on the chain where the signed approval is for another spender", async () => {
    expect(await read(await approval(NONCE, accounts.stranger.address))).toBe(ALLOWANCE);
  });
});
