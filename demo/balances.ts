import { Rpc } from "../src/chain/rpc.ts";
import type { Sandbox } from "./demo.ts";

/** Reads what the payer and the payee have, in token units. */
export async function balances(sandbox: Sandbox): Promise<{ payer: bigint; payee: bigint }> {
  const rpc = new Rpc({ rpcUrl: sandbox.rpc_url, timeoutMs: 5_000 });
  const balanceOf = async (account: string): Promise<bigint> => {
    // balanceOf(address)
    const data = `0x70a08231${account.slice(2).padStart(64, "0")}`;
    return BigInt((await rpc.call("eth_call", [{ to: sandbox.token, data }, "latest"])) as string);
  };
  return { payer: await balanceOf(sandbox.payer), payee: await balanceOf(sandbox.pay_to) };
}
