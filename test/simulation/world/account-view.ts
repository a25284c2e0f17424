import { toHex } from "../../../src/chain/rpc.ts";
import type { Chain } from "./chain.ts";
import { type Call, RpcFault, readCall } from "./contracts.ts";
import { decode } from "./settler-account.ts";
import type { Simulation } from "./simulation.ts";

/** Gas of a settlement and of a refund. */
const GAS = 60_000n;
const TIP = 1_000_000n;

/** Accounts as a node sees them: their nonces and balances, and what it says about transactions that they would send. */
export class AccountView {
  readonly #simulation: Simulation;
  readonly #chain: Chain;
  readonly #head: number;
  readonly #isCareless: boolean;

  constructor(
    simulation: Simulation,
    chain: Chain,
    { head, isCareless }: { readonly head: number; readonly isCareless: boolean },
  ) {
    this.#simulation = simulation;
    this.#chain = chain;
    this.#head = head;
    this.#isCareless = isCareless;
  }

  answer(method: string, params: readonly unknown[]): string {
    const [first, second] = params;
    switch (method) {
      case "eth_getCode":
        // Payers are contracts, so that nobody has to sign.
        return "0x01";
      case "eth_getBalance":
        return toHex(this.#at(String(first), String(second)).wei);
      case "eth_getTransactionCount":
        return toHex(BigInt(this.#at(String(first), String(second)).nonce));
      case "eth_maxPriorityFeePerGas":
        return toHex(TIP);
      case "eth_estimateGas": {
        const { from, to, data } = first as { from: string; to: string; data: string };
        const call = readCall(to, data);
        if (call !== undefined) this.simulate(call, from);
        return toHex(GAS);
      }
      case "eth_sendRawTransaction":
        return this.#send(String(first));
      default:
        throw new Error(`the node does not know ${method}`);
    }
  }

  /** Runs a call without sending it. @throws RpcFault when it reverts */
  simulate(call: Call, from: string | undefined): string {
    const seen = this.#chain.block(this.#head) ?? this.#chain.head;
    if (!this.#chain.succeeds(call, from?.toLowerCase(), seen)) throw new RpcFault("execution reverted");
    return "0x";
  }

  #send(raw: string): string {
    const run = this.#simulation;
    if (run.fault("the chain's node loses what it takes", 0.02)) return decode(raw).hash;
    const hash = this.#chain.accounts.send(raw);
    if (run.fault("the chain's node refuses what it takes", 0.02)) throw new RpcFault("internal error");
    return hash;
  }

  #at(address: string, which: string) {
    const named = which === "latest" ? this.#head : Number(which);
    if (named > this.#head && !this.#isCareless) throw new RpcFault("header not found");
    const state = this.#chain.accounts.at(address, Math.min(named, this.#head));
    if (state === undefined) throw new Error(`nobody has the key of ${address}`);
    return state;
  }
}
