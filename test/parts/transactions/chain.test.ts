import { expect, onTestFinished, test } from "vitest";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { feeOf, SettlerChain } from "../../../src/parts/transactions/chain.ts";
import { newAccount } from "../../helpers/accounts.ts";
import { borrowAnvil } from "../../helpers/anvil.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";

const GAS = { gasUsed: "0x5208", effectiveGasPrice: "0x3b9aca07" };

test("A transaction costs its gas at the price that it paid, and on a rollup what its data costs below", () => {
  expect(feeOf(GAS)).toBe(21_000n * 1_000_000_007n);
  expect(feeOf({ ...GAS, l1Fee: "0x1f" })).toBe(21_000n * 1_000_000_007n + 31n);
  expect(feeOf({ ...GAS, l1Fee: null })).toBe(21_000n * 1_000_000_007n);
});

test("The cost is unknown where the node does not tell the price", () => {
  expect(feeOf({ gasUsed: "0x5208" })).toBeUndefined();
  expect(feeOf({ ...GAS, gasUsed: null })).toBeUndefined();
});

test("An account without code is asked again unless a recent answer suffices, and a contract always", async () => {
  const anvil = await borrowAnvil();
  const rpc = await startFaultProxy({ target: anvil.rpcUrl });
  onTestFinished(async () => {
    await rpc.stop();
    await anvil.stop();
  });
  const network = `eip155:${anvil.chainId}`;
  const chain = new SettlerChain({ network, rpcUrl: rpc.url, timeoutMs: 60_000, telemetry: NO_TELEMETRY });
  const asked = async (address: `0x${string}`, plainAgeMs?: number) => {
    const before = rpc.count("eth_getCode");
    expect(await chain.code(address, plainAgeMs)).toBe((await anvil.client.getCode({ address })) ?? "0x");
    return rpc.count("eth_getCode") - before;
  };
  const { address } = newAccount();
  expect(await asked(address, 60_000)).toBe(1);
  expect(await asked(address, 60_000)).toBe(0);
  await anvil.client.setCode({ address, bytecode: "0x00" });
  expect(await asked(address)).toBe(1);
  expect(await asked(address, 60_000)).toBe(1);
});
