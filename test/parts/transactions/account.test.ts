import { keccak256, parseGwei } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import { readSigned, SettlerAccount } from "../../../src/parts/transactions/account.ts";

test("An account signs a transaction as viem's account of the same key does", async () => {
  for (const nonce of [0, 1, 300]) {
    const privateKey = generatePrivateKey();
    const viems = privateKeyToAccount(privateKey);
    const account = new SettlerAccount(privateKey);
    expect(account.address).toBe(viems.address);
    const fees = { maxFeePerGas: parseGwei("3"), maxPriorityFeePerGas: parseGwei("1") };
    const to = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
    const call = { chainId: 84_532, nonce, to, data: `0x${"ab".repeat(nonce)}`, gas: 90_000n } as const;
    const { raw, hash } = await account.sign({ ...call, fees });
    const expected = await viems.signTransaction({ type: "eip1559", ...call, ...fees });
    expect(raw).toBe(expected);
    expect(hash).toBe(keccak256(expected));
    expect(readSigned(raw)).toEqual({ gas: call.gas, fees });
  }
});
